//! The data that clients wrote, by drive address: the possible contents of each block, through
//! whichever volume it is read.
//!
//! Addresses are the drive's, because the sectors of a removed volume later belong to another one
//! with their old data (docs/volumes.md). The guarantee: a block holds the last durable data or
//! something newer, and nothing from elsewhere.

use std::collections::HashMap;

use bytes::Bytes;

/// The size of a block, and of the drive's physical sector.
pub(crate) const BLOCK: usize = 4096;
/// Its sectors.
pub(crate) const SECTORS: u64 = 8;

/// The content of blocks that were not written since.
pub(crate) type Base = Box<dyn Fn(u64) -> Bytes>;

/// All writes since the drive was last checked.
pub(crate) struct Blocks {
    base: Base,
    /// Distinguishes these writes from those of earlier runs.
    stamp: u64,
    writes: Vec<Written>,
    of_block: HashMap<u64, Vec<usize>>,
}

#[derive(Debug)]
struct Written {
    volume: u32,
    /// The content that a relocation copies.
    copied: Option<Bytes>,
    begun: usize,
    acknowledged: Option<usize>,
    safe: Option<usize>,
    /// A flush has failed since, so no later one covers it.
    forsaken: bool,
    /// It was rejected, so it must not have happened.
    refused: bool,
}

impl Blocks {
    pub(crate) fn new(stamp: u64, base: Base) -> Self {
        Self { base, stamp, writes: Vec::new(), of_block: HashMap::new() }
    }

    /// A write that is about to be sent: its number and data.
    pub(crate) fn begin(&mut self, block: u64, volume: u32, begun: usize) -> (usize, Bytes) {
        let number = self.add(block, volume, begun, None);
        (number, self.content(block, number))
    }

    /// A relocation is about to copy this content.
    pub(crate) fn begin_copy(&mut self, block: u64, content: Bytes, begun: usize) -> usize {
        self.add(block, SERVER, begun, Some(content))
    }

    /// Returns whether a block was written.
    pub(crate) fn is_written(&self, block: u64) -> bool {
        self.of_block.contains_key(&block)
    }

    fn add(&mut self, block: u64, volume: u32, begun: usize, copied: Option<Bytes>) -> usize {
        let number = self.writes.len();
        self.writes.push(Written {
            volume,
            copied,
            begun,
            acknowledged: None,
            safe: None,
            forsaken: false,
            refused: false,
        });
        self.of_block.entry(block).or_default().push(number);
        number
    }

    pub(crate) fn acknowledge(&mut self, number: usize, moment: usize, safe: bool) {
        let written = &mut self.writes[number];
        (written.acknowledged, written.safe) = (Some(moment), safe.then_some(moment));
    }

    pub(crate) fn refuse(&mut self, number: usize) {
        self.writes[number].refused = true;
    }

    /// Records a successful flush of a volume, sent when this number of writes had begun, all of
    /// them complete.
    pub(crate) fn flushed(&mut self, volume: u32, moment: usize) {
        for written in self.writes.iter_mut().filter(|written| {
            written.volume == volume && !written.forsaken && written.acknowledged.is_some()
        }) {
            written.safe.get_or_insert(moment);
        }
    }

    /// All acknowledged data is durable: the drive was closed in order.
    pub(crate) fn closed(&mut self, moment: usize) {
        for written in self
            .writes
            .iter_mut()
            .filter(|written| !written.forsaken && written.acknowledged.is_some())
        {
            written.safe.get_or_insert(moment);
        }
    }

    /// The drive reported an error: data that is not durable by now may be lost, and a later flush
    /// does not cover it.
    pub(crate) fn forsake(&mut self) {
        self.writes
            .iter_mut()
            .filter(|written| written.safe.is_none())
            .for_each(|written| written.forsaken = true);
    }

    /// Blocks that were written.
    pub(crate) fn written(&self) -> impl Iterator<Item = u64> + '_ {
        self.of_block.keys().copied()
    }

    /// Returns whether a block was being written at `moment`, so that it may be unreadable after a
    /// power cut.
    pub(crate) fn is_exposed(&self, block: u64, moment: usize) -> bool {
        self.legal(block, moment, |written| written.safe).len() > 1
    }

    /// Returns whether a block may have this content if the power failed at `moment`.
    pub(crate) fn check_cut(&self, block: u64, holds: &[u8], moment: usize) {
        self.check(block, holds, &self.legal(block, moment, |written| written.safe));
    }

    /// Returns whether a client may read this content now.
    pub(crate) fn check_now(&self, block: u64, holds: &[u8]) {
        self.check(block, holds, &self.legal(block, usize::MAX, |written| written.acknowledged));
    }

    /// The possible writes of a block in order, after `None` for the content before them: the last
    /// one durable by `moment` and all later ones.
    fn legal(
        &self,
        block: u64,
        moment: usize,
        settled: impl Fn(&Written) -> Option<usize>,
    ) -> Vec<Option<usize>> {
        let all = self.of_block.get(&block).map_or(&[][..], Vec::as_slice);
        let here: Vec<usize> = all
            .iter()
            .copied()
            .filter(|number| !self.writes[*number].refused && self.writes[*number].begun <= moment)
            .collect();
        let last = here.iter().rposition(|number| {
            settled(&self.writes[*number]).is_some_and(|settled| settled <= moment)
        });
        let before = last.is_none().then_some(None);
        before.into_iter().chain(here[last.unwrap_or(0)..].iter().copied().map(Some)).collect()
    }

    /// Sector by sector, because a write may be torn.
    fn check(&self, block: u64, holds: &[u8], legal: &[Option<usize>]) {
        let contents: Vec<Bytes> = legal
            .iter()
            .map(|write| {
                write.map_or_else(|| (self.base)(block), |number| self.content(block, number))
            })
            .collect();
        for sector in 0..SECTORS as usize {
            let bytes = sector * 512..(sector + 1) * 512;
            if contents.iter().all(|content| content[bytes.clone()] != holds[bytes.clone()]) {
                let story = self
                    .of_block
                    .get(&block)
                    .into_iter()
                    .flatten()
                    .map(|number| format!("\n  write {number}: {:?}", self.writes[*number]));
                panic!(
                    "sector {sector} of block {block} holds {}, and may hold {}{}",
                    identity(&holds[bytes.clone()]),
                    contents
                        .iter()
                        .map(|content| identity(&content[bytes.clone()]))
                        .collect::<Vec<_>>()
                        .join(", or "),
                    story.collect::<String>()
                );
            }
        }
    }

    /// The data of a write: each sector names its volume, its address, and its write.
    fn content(&self, block: u64, number: usize) -> Bytes {
        if let Some(copied) = &self.writes[number].copied {
            return copied.clone();
        }
        let words = |sector: u64| {
            [MAGIC, u64::from(self.writes[number].volume), block, sector, self.stamp, number as u64]
        };
        (0..SECTORS)
            .flat_map(|sector| words(sector).into_iter().cycle().take(512 / 8))
            .flat_map(u64::to_le_bytes)
            .collect()
    }
}

/// The origin of a sector, for people.
fn identity(sector: &[u8]) -> String {
    let word = |index: usize| {
        u64::from_le_bytes(sector[index * 8..index * 8 + 8].try_into().expect("eight bytes"))
    };
    match word(0) {
        MAGIC => format!(
            "sector {} of block {} by volume {}, write {} of life {}",
            word(3),
            word(2),
            word(1),
            word(5),
            word(4)
        ),
        0 if sector.iter().all(|byte| *byte == 0) => "zeroes".to_owned(),
        other => format!("something that begins with {other:#x}"),
    }
}

/// No volume: the server copied.
const SERVER: u32 = u32::MAX;
/// The start of every sector that a client wrote.
const MAGIC: u64 = u64::from_le_bytes(*b"a client");
