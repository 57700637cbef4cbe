//! [`Reader`]: the records of one file, through a buffer that never grows.

use std::io::{self, Read};
use std::sync::Arc;

use headtime_workload::trace::{Decoder, MAX_NEEDED, Step, TraceRecord};

use super::input::Input;
use super::report::Damage;

/// Bytes held of a file: twice what a decoder may need, so that what is left of a buffer is moved
/// rarely.
const BUFFER_BYTES: usize = 2 * MAX_NEEDED;

/// Reads one file's records. Damage goes to the report and is skipped; in strict mode it ends the
/// file.
pub(super) struct Reader<I = Input> {
    input: I,
    decoder: Box<dyn Decoder + Send>,
    file: String,
    buffer: Vec<u8>,
    from: usize,
    to: usize,
    ends: bool,
    damage: Arc<Damage>,
}

impl<I: Read> Reader<I> {
    pub(super) fn new(
        input: I,
        decoder: Box<dyn Decoder + Send>,
        file: String,
        damage: Arc<Damage>,
    ) -> Self {
        Self {
            input,
            decoder,
            file,
            buffer: vec![0; BUFFER_BYTES],
            from: 0,
            to: 0,
            ends: false,
            damage,
        }
    }

    /// Reads more bytes after the available ones.
    fn fill(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.from..self.to, 0);
        (self.from, self.to) = (0, self.to - self.from);
        assert!(self.to < self.buffer.len(), "a decoder asks for no more than MAX_NEEDED bytes");
        loop {
            match self.input.read(&mut self.buffer[self.to..]) {
                Ok(0) => self.ends = true,
                Ok(count) => self.to += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            return Ok(());
        }
    }
}

impl<I: Read> Iterator for Reader<I> {
    type Item = TraceRecord;

    fn next(&mut self) -> Option<TraceRecord> {
        while !self.damage.is_fatal() {
            let (found, consumed) =
                match self.decoder.step(&self.buffer[self.from..self.to], self.ends) {
                    Step::NeedMore if self.ends => return None,
                    Step::NeedMore => {
                        if let Err(error) = self.fill() {
                            self.damage.fail(format!("{} cannot be read on: {error}", self.file));
                        }
                        continue;
                    }
                    Step::Record { record, consumed } => (Some(record), consumed),
                    Step::Passed { consumed } | Step::Blank { consumed } => (None, consumed),
                    Step::Damaged { error, consumed } => {
                        self.damage.add(&error);
                        (None, consumed)
                    }
                };
            self.from += consumed;
            if found.is_some() {
                return found;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_workload::trace::{self, Reading};

    /// Lines without end, up to a length, in pieces of odd sizes.
    struct Endless {
        line: &'static [u8],
        given: u64,
        until: u64,
        max_asked: usize,
    }

    impl Read for Endless {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.max_asked = self.max_asked.max(into.len());
            let count = into.len().min(8191).min((self.until - self.given) as usize);
            for (at, byte) in (self.given..).zip(&mut into[..count]) {
                *byte = self.line[at as usize % self.line.len()];
            }
            self.given += count as u64;
            Ok(count)
        }
    }

    #[test]
    fn a_long_trace_passes_through_a_buffer_that_does_not_grow() {
        let line = b"0,20941264,8192,W,0.551706\n";
        let input = Endless { line, given: 0, until: 32 << 20, max_asked: 0 };
        let decoder =
            (trace::format("spc").expect("it stands in the table").decoder)(&Reading::of("long"));
        let mut reader =
            Reader::new(input, decoder, "long".to_string(), Arc::new(Damage::new(false, false)));
        let records = reader.by_ref().count();
        assert_eq!(
            records,
            (32_usize << 20).div_ceil(line.len()),
            "the last line is cut, and still one"
        );
        assert!(
            reader.buffer.capacity() == BUFFER_BYTES && reader.input.max_asked <= BUFFER_BYTES,
            "{}",
            reader.buffer.capacity()
        );
    }

    #[test]
    fn an_input_that_fails_ends_the_trace_with_what_it_said() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("the disk is gone"))
            }
        }
        let damage = Arc::new(Damage::new(false, false));
        let decoder =
            (trace::format("spc").expect("it stands in the table").decoder)(&Reading::of("x"));
        let input = io::Cursor::new(b"0,1,512,R,0.0\n").chain(Broken);
        let records = Reader::new(input, decoder, "x".to_string(), Arc::clone(&damage)).count();
        assert_eq!((records, damage.is_fatal()), (1, true));
    }
}
