//! The bytes of a trace: a file or standard input, unpacked on the way if it is gzip or zstd.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom};
use std::path::Path;

use anyhow::{Context as _, anyhow};

use super::STANDARD_INPUT;
use headtime_console::Failure;

/// Bytes read from a file at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// An open trace, unpacked.
pub(super) struct Input {
    /// Bytes that were inspected but not yet read.
    looked_at: Vec<u8>,
    from: usize,
    rest: Box<dyn Read + Send>,
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").finish_non_exhaustive()
    }
}

impl Input {
    /// The content of `bytes`, decompressed if it begins as gzip or zstd does.
    pub(super) fn unpacking(bytes: impl Read + Send + 'static) -> io::Result<Self> {
        let mut raw = Self { looked_at: Vec::new(), from: 0, rest: Box::new(bytes) };
        let (magic, _) = raw.sample(4)?;
        let packed = Packed::of(magic);
        let rest: Box<dyn Read + Send> = match packed {
            Packed::Not => return Ok(raw),
            Packed::Gzip => Box::new(flate2::read::MultiGzDecoder::new(raw)),
            Packed::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(
                BufReader::with_capacity(CHUNK_BYTES, raw),
            )?),
        };
        Ok(Self { looked_at: Vec::new(), from: 0, rest })
    }

    /// The next `bytes` bytes without reading them, fewer where the input ends; and whether it ends
    /// there.
    pub(super) fn sample(&mut self, bytes: usize) -> io::Result<(&[u8], bool)> {
        let have = self.looked_at.len() - self.from;
        if have < bytes {
            let missing = (bytes - have) as u64;
            self.rest.by_ref().take(missing).read_to_end(&mut self.looked_at)?;
        }
        let sample = &self.looked_at[self.from..];
        Ok((sample, sample.len() < bytes))
    }
}

impl Read for Input {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.from == self.looked_at.len() {
            return self.rest.read(into);
        }
        let count = (&self.looked_at[self.from..]).read(into)?;
        self.from += count;
        if self.from == self.looked_at.len() {
            (self.looked_at, self.from) = (Vec::new(), 0);
        }
        Ok(count)
    }
}

#[derive(Clone, Copy)]
enum Packed {
    Not,
    Gzip,
    Zstd,
}

impl Packed {
    fn of(magic: &[u8]) -> Self {
        match magic {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd] => Self::Zstd,
            _ => Self::Not,
        }
    }
}

/// Opens a file, or standard input for `-`.
pub(super) fn open(path: &Path) -> Result<Input, Failure> {
    let name = path.display();
    if path.as_os_str() == STANDARD_INPUT {
        return Ok(Input::unpacking(io::stdin()).context("standard input cannot be read")?);
    }
    let file = File::open(path)
        .with_context(|| format!("trace {name} cannot be opened"))
        .map_err(Failure::Usage)?;
    let directory = file.metadata().is_ok_and(|known| known.is_dir());
    if directory {
        return Err(Failure::Usage(anyhow!(
            "trace {name} is a directory; expected a file: name the files in it"
        )));
    }
    Ok(Input::unpacking(file).with_context(|| format!("trace {name} cannot be read"))?)
}

/// Returns true for a file, which can be opened again from its start; a pipe continues where it was
/// left.
pub(super) fn is_file(path: &Path) -> bool {
    path.as_os_str() != STANDARD_INPUT && path.metadata().is_ok_and(|known| known.is_file())
}

/// A file's size and the checksums of its first and last MiB.
pub(super) fn fingerprint_of(path: &Path) -> Result<String, Failure> {
    const ENDS_BYTES: u64 = 1 << 20;
    let name = path.display();
    if !is_file(path) {
        return Err(Failure::Usage(anyhow!(
            "{name} is no file, so it cannot be recognized again; write the trace to a file"
        )));
    }
    let checksums = || -> io::Result<String> {
        let mut file = File::open(path)?;
        let bytes = file.metadata()?.len();
        let mut end = Vec::new();
        (&file).take(ENDS_BYTES).read_to_end(&mut end)?;
        let first = crc32c::crc32c(&end);
        file.seek(SeekFrom::Start(bytes.saturating_sub(ENDS_BYTES)))?;
        end.clear();
        file.take(ENDS_BYTES).read_to_end(&mut end)?;
        Ok(format!("{bytes}:{first:08x}:{:08x}", crc32c::crc32c(&end)))
    };
    checksums().with_context(|| format!("trace {name} cannot be read")).map_err(Failure::Failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(bytes).expect("memory takes it");
        packer.finish().expect("memory takes it")
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        zstd::stream::encode_all(bytes, 1).expect("memory takes it")
    }

    fn unpacked(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        Input::unpacking(io::Cursor::new(bytes))?.read_to_end(&mut out).map(|_| out)
    }

    #[test]
    fn plain_and_packed_bytes_come_out_the_same_in_one_part_or_several() {
        let long: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
        for bytes in [b"".to_vec(), b"1".to_vec(), b"0,1,512,R,0.0\n".to_vec(), long] {
            let (first, second) = bytes.split_at(bytes.len() / 3);
            let packed = [
                bytes.clone(),
                gzip(&bytes),
                zstd(&bytes),
                [gzip(first), gzip(second)].concat(),
                [zstd(first), zstd(second)].concat(),
            ];
            for (way, packed) in packed.into_iter().enumerate() {
                assert_eq!(
                    unpacked(packed).expect("it is whole"),
                    bytes,
                    "{} bytes, way {way}",
                    bytes.len()
                );
            }
        }
    }

    #[test]
    fn looking_at_an_input_takes_nothing_from_it() {
        let mut input =
            Input::unpacking(io::Cursor::new(gzip(b"0123456789"))).expect("it is whole");
        assert_eq!(input.sample(4).expect("it is whole"), (&b"0123"[..], false));
        assert_eq!(input.sample(20).expect("it is whole"), (&b"0123456789"[..], true));
        let mut out = String::new();
        input.read_to_string(&mut out).expect("it is whole");
        assert_eq!(out, "0123456789");
    }

    #[test]
    fn a_cut_packed_file_is_an_error_and_never_a_shorter_trace() {
        for packed in [gzip(b"0,1,512,R,0.0\n"), zstd(b"0,1,512,R,0.0\n")] {
            for cut in 5..packed.len() {
                assert!(
                    unpacked(packed[..cut].to_vec()).is_err(),
                    "cut at {cut} of {}",
                    packed.len()
                );
            }
        }
    }
}
