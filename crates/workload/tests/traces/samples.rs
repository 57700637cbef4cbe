//! A small handmade trace of each format, and its records.

use headtime_units::{Instant, Nanos};
use headtime_workload::Operation::{self, Discard, Flush, Read, Write, Zero};
use headtime_workload::trace::{self, Action, Format, Reading, Step, TraceError, TraceRecord};

/// A trace and its records.
pub(crate) struct Sample {
    pub format: &'static Format,
    pub bytes: Vec<u8>,
    pub records: Vec<TraceRecord>,
    /// The same trace by the other event, where the format has several.
    pub issued: Vec<TraceRecord>,
}

pub(crate) fn record(
    place: u64,
    ns: u64,
    device: u32,
    operation: Operation,
    offset_bytes: u64,
    len_bytes: u64,
) -> TraceRecord {
    TraceRecord {
        device,
        ..TraceRecord::new(place, Instant::from_ns(ns), operation, offset_bytes, len_bytes)
            .expect("it ends below 2^64")
    }
}

fn of(process: u32, record: TraceRecord) -> TraceRecord {
    TraceRecord { process, ..record }
}

fn fua(record: TraceRecord) -> TraceRecord {
    TraceRecord { fua: true, ..record }
}

fn took(response_ns: u64, record: TraceRecord) -> TraceRecord {
    TraceRecord { response: Some(Nanos::from_ns(response_ns)), ..record }
}

const SDA: u32 = 8 << 20;
const SDB: u32 = 8 << 20 | 16;
const DAY_2020: u64 = 1_577_808_000_000_000_000;
const DAY_2018: u64 = 1_538_323_200_000_000_000;

pub(crate) fn samples() -> Vec<Sample> {
    let blkparse = vec![
        of(697, record(2, 1_200, SDA, Write, 223_490 * 512, 4096)),
        of(1200, record(4, 250_000_000, SDB, Read, 4096 * 512, 8192)),
        of(697, record(6, 400_000_000, SDA, Flush, 0, 0)),
        of(697, fua(record(6, 400_000_000, SDA, Write, 512_000, 4096))),
        of(697, record(7, 410_000_000, SDA, Flush, 0, 0)),
        of(697, record(8, 500_000_001, SDA, Discard, 1 << 20, 1 << 20)),
    ];
    let blkparse_issued = vec![of(697, record(3, 10_000, SDA, Write, 223_490 * 512, 4096))];
    let blktrace = vec![
        of(697, record(1, 5_000, SDA, Write, 223_490 * 512, 4096)),
        of(1200, record(4, 250_000_000, SDB, Read, 4096 * 512, 8192)),
        of(697, record(5, 400_000_000, SDA, Flush, 0, 0)),
        of(697, fua(record(5, 400_000_000, SDA, Write, 512_000, 4096))),
        of(697, record(6, 410_000_000, SDA, Flush, 0, 0)),
        of(697, record(7, 500_000_001, SDA, Discard, 1 << 20, 1 << 20)),
    ];
    let blktrace_issued = vec![of(697, record(2, 10_000, SDA, Write, 223_490 * 512, 4096))];
    let validate =
        |place, ns, operation, lba: u64, sectors: u64, response: u64, think: u64| TraceRecord {
            think: Some(Nanos::from_ns(think)),
            ..took(response, record(place, ns, 0, operation, lba * 512, sectors * 512))
        };
    let mut samples = vec![
        sample("blkparse", include_bytes!("blkparse.txt"), blkparse),
        sample("blktrace", &blktrace_bytes(true), blktrace.clone()),
        sample(
            "fio2",
            include_bytes!("fio2.log"),
            vec![
                record(5, 0, 0, Write, 0, 4096),
                record(7, 1_500_000, 1, Read, 8192, 512),
                record(9, 2_000_000, 0, Discard, 1 << 20, 65_536),
                record(10, 2_000_000, 0, Flush, 0, 0),
            ],
        ),
        sample(
            "fio3",
            include_bytes!("fio3.log"),
            vec![
                record(4, 146_000, 0, Read, 53_248, 4096),
                record(5, 369_000, 0, Write, 45_056, 4096),
                record(6, 500_000, 1, Discard, 0, 512),
                record(7, 500_345_000, 0, Flush, 0, 0),
            ],
        ),
        sample(
            "msr",
            include_bytes!("msr.csv"),
            vec![
                took(102_100, record(1, 12_816_637_200_306_162_900, 0, Read, 8192, 4096)),
                record(2, 12_816_637_201_638_215_500, 1, Write, 2_154_496, 512),
                took(500, record(3, 12_816_637_202_638_224_500, 1 << 16, Read, 999, 1)),
            ],
        ),
        sample(
            "spc",
            include_bytes!("spc.csv"),
            vec![
                record(1, 551_706_000, 0, Write, 20_941_264 * 512, 8192),
                record(2, 554_041_000, 0, Write, 20_939_840 * 512, 8192),
                record(3, 1_000_000_002, 1, Read, 3072 * 512, 1),
                record(4, 500_000_000, 2, Read, 64 * 512, 512),
            ],
        ),
        sample(
            "alibaba",
            include_bytes!("alibaba.csv"),
            vec![
                record(1, DAY_2020 + 46_000, 419, Write, 53_481_484_288, 4096),
                record(2, DAY_2020 + 107_000, 725, Read, 4096, 512),
            ],
        ),
        sample(
            "tencent",
            include_bytes!("tencent.csv"),
            vec![
                record(1, DAY_2018, 1063, Read, 12_910_952 * 512, 65_536),
                record(2, DAY_2018, 1, Write, 0, 4096),
                record(3, DAY_2018 + 1_000_000_000, 1063, Read, 3584, 512),
            ],
        ),
        sample(
            "vscsi1",
            &[
                vscsi1(1, 4096, 0x28, 1000, 5_000_000),
                vscsi1(2, 36, 0x12, 0, 5_000_001),
                vscsi1(3, 512, 0x8a, 1 << 33, 5_000_002),
                vscsi1(4, 0, 0x35, 0, 5_000_003),
                vscsi1(5, 8192, 0x93, 16, 5_000_004),
            ]
            .concat(),
            vec![
                record(1, 5_000_000_000, 0, Read, 512_000, 4096),
                record(3, 5_000_002_000, 0, Write, 1 << 42, 512),
                record(4, 5_000_003_000, 0, Flush, 0, 0),
                record(5, 5_000_004_000, 0, Zero, 8192, 8192),
            ],
        ),
        sample(
            "vscsi2",
            &[
                vscsi2(1, 4096, 0x28, 1000, 5_000_000, 350),
                vscsi2(2, 36, 0x12, 0, 5_000_001, 9),
                vscsi2(3, 512, 0x2a, 8, 5_000_002, 0),
            ]
            .concat(),
            vec![
                took(350_000, record(1, 5_000_000_000, 0, Read, 512_000, 4096)),
                record(3, 5_000_002_000, 0, Write, 4096, 512),
            ],
        ),
        sample(
            "disksim-ascii",
            include_bytes!("disksim-ascii.trace"),
            vec![
                record(1, 0, 0, Read, 3_962_268 * 512, 12 * 512),
                record(2, 12_345_678, 1, Write, 0, 4096),
                record(3, 12_500_000, 0, Read, 4096 * 512, 512),
            ],
        ),
        sample(
            "disksim-validate",
            include_bytes!("disksim-validate.trace"),
            vec![
                validate(2, 0, Write, 4_583_176, 4, 663_000, 45_422_000),
                validate(4, 46_085_000, Read, 7, 12, 6_657_500, 0),
            ],
        ),
    ];
    for sample in &mut samples {
        match sample.format.name {
            "blkparse" => sample.issued = blkparse_issued.clone(),
            "blktrace" => sample.issued = blktrace_issued.clone(),
            _ => {}
        }
    }
    samples
}

fn sample(name: &str, bytes: &[u8], records: Vec<TraceRecord>) -> Sample {
    let format = trace::format(name).unwrap_or_else(|| panic!("{name} is no format of the table"));
    Sample { format, bytes: bytes.to_vec(), issued: records.clone(), records }
}

/// The blktrace sample in little or big byte order: the events of `blkparse.txt` that matter, with
/// payloads.
pub(crate) fn blktrace_bytes(little: bool) -> Vec<u8> {
    const Q: u32 = 1;
    const D: u32 = 7;
    let mut bytes = Vec::new();
    let mut event =
        |ns: u64, sector: u64, len: u32, action: u32, process: u32, device: u32, payload: &[u8]| {
            let u16 = |value: u16| if little { value.to_le_bytes() } else { value.to_be_bytes() };
            let u32 = |value: u32| if little { value.to_le_bytes() } else { value.to_be_bytes() };
            let u64 = |value: u64| if little { value.to_le_bytes() } else { value.to_be_bytes() };
            bytes.extend([u32(0x6561_7407), u32(9)].concat());
            bytes.extend([u64(ns), u64(sector)].concat());
            bytes.extend([u32(len), u32(action), u32(process), u32(device), u32(3)].concat());
            bytes.extend([u16(0), u16(payload.len() as u16)].concat());
            bytes.extend(payload);
        };
    let category = |bits: &[u32]| bits.iter().fold(0, |all, bit| all | 1 << (bit + 16));
    // Write, queue; then write, issue.
    event(5_000, 223_490, 4096, Q | category(&[1, 4]), 697, SDA, &[]);
    event(10_000, 223_490, 4096, D | category(&[1, 6]), 697, SDA, &[]);
    // A note of a process name.
    event(11_000, 0, 0, category(&[10]), 697, 0, b"kjournald\0\0\0");
    // A read ahead of a control group, whose number is the payload.
    event(
        250_000_000,
        4096,
        8192,
        Q | 1 << 8 | category(&[0, 4, 11]),
        1200,
        SDB,
        &[1, 0, 0, 0, 2, 0, 0, 0],
    );
    // Write with flush before, FUA, sync.
    event(400_000_000, 1000, 4096, Q | category(&[1, 2, 3, 4, 15]), 697, SDA, &[]);
    event(410_000_000, 0, 0, Q | category(&[2, 4]), 697, SDA, &[]);
    event(500_000_001, 2048, 1 << 20, Q | category(&[1, 4, 13]), 697, SDA, &[]);
    // A packet command, and an unplugging with its count.
    event(700_000_000, 0, 96, Q | category(&[0, 4, 9]), 900, SDA, &[0x12, 0, 0, 0, 96, 0]);
    event(800_000_000, 0, 0, 10 | category(&[4]), 697, SDA, &[0, 0, 0, 0, 0, 0, 0, 1]);
    bytes
}

fn vscsi1(sequence: u32, len: u32, command: u16, block: u64, us: u64) -> Vec<u8> {
    let head = [sequence, len, 1].map(u32::to_le_bytes).concat();
    [
        head,
        [command, 0x0100].map(u16::to_le_bytes).concat(),
        [block, us].map(u64::to_le_bytes).concat(),
    ]
    .concat()
}

fn vscsi2(sequence: u32, len: u32, command: u16, block: u64, us: u64, response: u64) -> Vec<u8> {
    let head = [command, 0x0201].map(u16::to_le_bytes).concat();
    [
        head,
        [sequence, len, 1].map(u32::to_le_bytes).concat(),
        [block, us, response].map(u64::to_le_bytes).concat(),
    ]
    .concat()
}

/// All that a decoder makes of some bytes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Made {
    pub records: Vec<TraceRecord>,
    pub damage: Vec<TraceError>,
    pub passed: usize,
    pub steps: usize,
}

/// Decodes `bytes`, handed in pieces of at most `piece` bytes more at a time, as a reader of a slow
/// pipe would.
pub(crate) fn read(format: &Format, action: Action, bytes: &[u8], piece: usize) -> Made {
    let mut decoder = (format.decoder)(&Reading { action, ..Reading::of("sample") });
    let mut made = Made::default();
    let (mut from, mut to) = (0, 0);
    loop {
        let ends = to == bytes.len();
        made.steps += 1;
        let consumed = match decoder.step(&bytes[from..to], ends) {
            Step::NeedMore if ends => {
                assert_eq!(from, to, "{}: more is requested although nothing follows", format.name);
                return made;
            }
            Step::NeedMore => {
                assert!(
                    to - from < trace::MAX_NEEDED,
                    "{}: {} bytes are at hand and more are requested",
                    format.name,
                    to - from
                );
                to = bytes.len().min(to + piece);
                0
            }
            Step::Record { record, consumed } => {
                made.records.push(record);
                consumed
            }
            Step::Passed { consumed } => {
                made.passed += 1;
                assert!(consumed > 0, "{}: no progress", format.name);
                consumed
            }
            Step::Blank { consumed } => {
                assert!(consumed > 0, "{}: no progress", format.name);
                consumed
            }
            Step::Damaged { error, consumed } => {
                made.damage.push(error);
                assert!(consumed > 0, "{}: no progress", format.name);
                consumed
            }
        };
        from += consumed;
        assert!(from <= to, "{}: consumed more than there was", format.name);
        // A record at most two of each byte, whatever it is.
        assert!(
            made.steps <= 4 * bytes.len() + 16,
            "{}: {} steps over {} bytes",
            format.name,
            made.steps,
            bytes.len()
        );
    }
}
