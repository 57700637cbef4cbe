//! Buffers that start on a page, as direct I/O requires, made without unsafe code: a little more is
//! allocated, and the part used starts at the first page boundary.

use bytes::Bytes;

/// The alignment in bytes: no file system or device asks for more.
pub(crate) const ALIGNMENT: usize = 4096;

/// A page-aligned buffer of fixed length.
#[derive(Debug)]
pub(crate) struct AlignedBuffer {
    storage: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    /// A buffer of `len` zero bytes.
    pub(crate) fn zeroed(len: usize) -> Self {
        let storage = vec![0; len + ALIGNMENT];
        let start = storage.as_ptr().align_offset(ALIGNMENT);
        Self { storage, start, len }
    }

    /// A buffer of `len` zero bytes whose pages are allocated, so that its first use does not wait
    /// for the system.
    pub(crate) fn touched(len: usize) -> Self {
        let mut buffer = Self::zeroed(len);
        buffer
            .as_mut_slice()
            .chunks_mut(ALIGNMENT)
            .for_each(|page| page[0] = std::hint::black_box(0));
        buffer
    }

    /// The maximum length.
    pub(crate) fn capacity(&self) -> usize {
        self.storage.len() - self.start
    }

    /// Sets the length. The content is undefined.
    ///
    /// # Panics
    /// When that is more than the maximum.
    pub(crate) fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity(), "a buffer of {} bytes cannot hold {len}", self.capacity());
        self.len = len;
    }

    /// A buffer with the pieces one after the other.
    pub(crate) fn of(pieces: &[Bytes]) -> Self {
        let mut buffer = Self::zeroed(pieces.iter().map(Bytes::len).sum());
        let mut rest = buffer.as_mut_slice();
        for piece in pieces {
            let (head, tail) = rest.split_at_mut(piece.len());
            head.copy_from_slice(piece);
            rest = tail;
        }
        buffer
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.storage[self.start..self.start + self.len]
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.storage[self.start..self.start + self.len]
    }

    /// The content without copying it.
    pub(crate) fn into_bytes(self) -> Bytes {
        let (start, end) = (self.start, self.start + self.len);
        Bytes::from(self.storage).slice(start..end)
    }
}

/// The use of the page cache by a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageCache {
    /// The file uses it.
    Use,
    /// Direct I/O bypasses it.
    Bypass,
}

impl From<bool> for PageCache {
    /// True stands for direct I/O.
    fn from(direct: bool) -> Self {
        if direct { Self::Bypass } else { Self::Use }
    }
}

/// Joins the pieces of a write. Copies them only if there are several, or if direct I/O needs an
/// alignment that they lack.
pub(crate) fn join(mut pieces: Vec<Bytes>, cache: PageCache) -> Bytes {
    match pieces.as_slice() {
        [only] if cache == PageCache::Use || (only.as_ptr() as usize).is_multiple_of(ALIGNMENT) => {
            pieces.pop().expect("the slice has one piece")
        }
        _ => AlignedBuffer::of(&pieces).into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_start_on_a_page_and_keep_their_content() {
        for len in [0, 1, 511, 512, 4096, 10_000] {
            let first = Bytes::from(vec![7_u8; len]);
            let second = Bytes::from(vec![9_u8; 3]);
            let buffer = AlignedBuffer::of(&[first.clone(), second.clone()]);
            assert_eq!(buffer.as_slice().as_ptr() as usize % ALIGNMENT, 0);
            let bytes = buffer.into_bytes();
            assert_eq!((&bytes[..len], &bytes[len..]), (&first[..], &second[..]));
        }
    }

    #[test]
    fn a_single_piece_is_copied_only_when_it_must_be_aligned() {
        let page = AlignedBuffer::zeroed(8192).into_bytes();
        let joined = |piece: &Bytes, cache| join(vec![piece.clone()], cache);
        let unaligned = page.slice(1..513);
        assert_eq!(joined(&page, PageCache::Bypass).as_ptr(), page.as_ptr());
        assert_eq!(joined(&unaligned, PageCache::Use).as_ptr(), unaligned.as_ptr());
        let copy = joined(&unaligned, PageCache::Bypass);
        assert_eq!((copy.as_ptr() as usize % ALIGNMENT, &copy), (0, &unaligned));
    }
}
