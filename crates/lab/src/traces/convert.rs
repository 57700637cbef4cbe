//! Writing a trace in another format: beside its place, and moved there when it is whole.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Context as _, anyhow};
use headtime_io::files::{Existing, write_atomically};
use headtime_workload::trace::{Format, Losses, TraceRecord};

use headtime_console::Failure;

/// The records written, and the properties that the format cannot express.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Converted {
    /// Requests that were written.
    pub written: u64,
    /// The properties that were lost.
    pub losses: Losses,
}

/// Bytes of a trace that are gathered before they are packed and written.
const CHUNK_BYTES: usize = 64 * 1024;

/// Writes `records` in `format` to the file `to`, compressed if it ends in .gz or .zst. `whole` is
/// called when all are written; if it or anything before it fails, an existing file stays
/// unchanged.
///
/// # Errors
/// When the file or a record cannot be written, or `whole` fails.
pub fn convert(
    records: impl Iterator<Item = TraceRecord>,
    format: &Format,
    to: &Path,
    whole: impl FnOnce() -> Result<(), Failure>,
) -> Result<Converted, Failure> {
    let name = to.display().to_string();
    let mut refused = None;
    let written = write_atomically(to, Existing::Replace, |file| {
        let mut out = Packing::new(to, file)?;
        let converted = write(records, format, &mut out)?;
        out.finish()?;
        refused = whole().err().or_else(|| {
            (converted.written == 0).then(|| {
                Failure::Failed(anyhow!(
                    "{name} is not written: no request is left that {} can express",
                    format.name
                ))
            })
        });
        // Any error discards the file.
        if refused.is_some() { Err(io::ErrorKind::InvalidData.into()) } else { Ok(converted) }
    });
    match refused {
        Some(failure) => Err(failure),
        None => Ok(written.with_context(|| format!("{name} cannot be written"))?),
    }
}

/// Writes `records` in `format`.
///
/// # Errors
/// When `out` cannot be written.
pub fn write(
    records: impl Iterator<Item = TraceRecord>,
    format: &Format,
    out: &mut impl Write,
) -> io::Result<Converted> {
    let mut encoder = (format.encoder)();
    let mut converted = Converted::default();
    let mut bytes = Vec::new();
    encoder.begin(&mut bytes);
    for record in records {
        let Some(record) = format.says.reduce(&record, &mut converted.losses) else { continue };
        encoder.record(&record, &mut bytes);
        converted.written += 1;
        if bytes.len() >= CHUNK_BYTES {
            out.write_all(&bytes)?;
            bytes.clear();
        }
    }
    encoder.end(&mut bytes);
    out.write_all(&bytes)?;
    out.flush()?;
    Ok(converted)
}

/// A file, packed on the way.
enum Packing<W: Write> {
    Not(BufWriter<W>),
    Gzip(flate2::write::GzEncoder<W>),
    Zstd(zstd::stream::write::Encoder<'static, W>),
}

impl<W: Write> Packing<W> {
    fn new(to: &Path, out: W) -> io::Result<Self> {
        Ok(match to.extension().and_then(|ending| ending.to_str()) {
            Some("gz") => {
                Self::Gzip(flate2::write::GzEncoder::new(out, flate2::Compression::default()))
            }
            Some("zst") => Self::Zstd(zstd::stream::write::Encoder::new(out, 0)?),
            _ => Self::Not(BufWriter::new(out)),
        })
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Self::Not(mut out) => out.flush(),
            Self::Gzip(out) => out.finish()?.flush(),
            Self::Zstd(out) => out.finish()?.flush(),
        }
    }
}

impl<W: Write> Write for Packing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Not(out) => out.write(bytes),
            Self::Gzip(out) => out.write(bytes),
            Self::Zstd(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Not(out) => out.flush(),
            Self::Gzip(out) => out.flush(),
            Self::Zstd(out) => out.flush(),
        }
    }
}
