//! Values in fio's notation: numbers with suffixes, times, lists by direction.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// The meaning of fio's byte suffixes: with `kb_base=1024`, which is its default, `k` and `kb` are
/// 1,024 and `kib` is 1,000; with `kb_base=1000` the other way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KbBase {
    Binary,
    Decimal,
}

/// A number of bytes such as `4k`, `1g`, `64kib`, `4096` or `0x1000`.
pub(super) fn bytes(text: &str, base: KbBase) -> Result<u64, String> {
    let lower = text.trim().to_ascii_lowercase();
    let refuse = || format!("`{text}` is not a size; write it such as 4k, 64k, 1m or 100g");
    if let Some(digits) = lower.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).map_err(|_| refuse());
    }
    let end = lower
        .find(|character: char| !character.is_ascii_digit() && character != '.')
        .unwrap_or(lower.len());
    let (number, suffix) = lower.split_at(end);
    let (unit, reversed) = match suffix.strip_suffix("ib") {
        Some(unit) if !unit.is_empty() => (unit, true),
        _ => (suffix.strip_suffix(['b', 'i']).unwrap_or(suffix), false),
    };
    let power = match unit {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return Err(refuse()),
    };
    let step: u64 = if (base == KbBase::Binary) == reversed { 1_000 } else { 1_024 };
    let unit = step.pow(power);
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(unit).ok_or_else(refuse);
    }
    let product = number.parse::<f64>().map_err(|_| refuse())? * unit as f64;
    if product < 1e18 { Ok(libm::round(product) as u64) } else { Err(refuse()) }
}

/// A size in bytes, or a share of the drive such as `20%`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Extent {
    Bytes(u64),
    Share(f64),
}

pub(super) fn extent(text: &str, base: KbBase) -> Result<Extent, String> {
    match text.trim().strip_suffix('%') {
        Some(number) => percent(number).map(Extent::Share),
        None => bytes(text, base).map(Extent::Bytes),
    }
}

/// A percentage as a share of one.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    let percent: Option<f64> = text.trim().trim_end_matches('%').parse().ok();
    percent
        .filter(|percent| (0.0..=100.0).contains(percent))
        .map(|percent| percent / 100.0)
        .ok_or_else(|| format!("`{text}` is not a percentage from 0 to 100"))
}

/// A time in nanoseconds such as `10s`, `5m`, `100ms`; without a unit it is in units of `unit_ns`.
pub(super) fn time(text: &str, unit_ns: u64) -> Result<u64, String> {
    let refuse = || format!("`{text}` is not a time; write it such as 30s, 5m or 100ms");
    let text = text.trim().to_ascii_lowercase();
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = match unit {
        "" => unit_ns,
        "us" | "usec" => 1_000,
        "ms" | "msec" => 1_000_000,
        "s" | "sec" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return Err(refuse()),
    };
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).ok_or_else(refuse)
}

/// A whole number.
pub(super) fn whole(text: &str) -> Result<u64, String> {
    bytes(text, KbBase::Binary).map_err(|_| format!("`{text}` is not a whole number"))
}

/// A boolean: `1`, or no value.
pub(super) fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "true" | "" => Ok(true),
        "0" | "false" => Ok(false),
        _ => Err(format!("`{text}` is neither 0 nor 1")),
    }
}

/// The parts of `a,b,c` for reads, writes and trims. As in fio, a single part is for all, and a
/// missing last part is as that for writes.
pub(super) fn by_direction(text: &str) -> [Option<String>; 3] {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    let part = |number: usize| parts.get(number).copied();
    let read = part(0);
    let write = part(1).or(read);
    let trim = part(2).or(write);
    [read, write, trim].map(|part| part.filter(|part| !part.is_empty()).map(ToString::to_string))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values from the bytes that `fio --ioengine=null --size=…` 3.33 reports as read.
    #[test]
    fn suffixes_have_the_meaning_of_fio() {
        let cases = [
            ("1000k", 1_024_000),
            ("1000kb", 1_024_000),
            ("1000ki", 1_024_000),
            ("1000kib", 1_000_000),
            ("1m", 1 << 20),
            ("0x200", 512),
            ("1.5k", 1_536),
        ];
        for (text, expected) in cases {
            assert_eq!(bytes(text, KbBase::Binary), Ok(expected), "{text}");
        }
        assert_eq!(
            (bytes("4k", KbBase::Decimal), bytes("4kib", KbBase::Decimal)),
            (Ok(4_000), Ok(4_096))
        );
        for text in ["", "k", "4x", "-1", "4kk", "999999999p"] {
            assert!(bytes(text, KbBase::Binary).is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn times_without_a_unit_have_the_unit_of_the_option() {
        for (text, ns) in [
            ("10", 10_000_000_000),
            ("10s", 10_000_000_000),
            ("5m", 300_000_000_000),
            ("20ms", 20_000_000),
            ("7us", 7_000),
        ] {
            assert_eq!(time(text, 1_000_000_000), Ok(ns), "{text}");
        }
        for text in ["", "s", "1-2", "3 weeks"] {
            assert!(time(text, 1).is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn missing_directions_are_filled_as_in_fio() {
        let shown = |text| by_direction(text).map(Option::unwrap_or_default);
        assert_eq!(shown("4k"), ["4k", "4k", "4k"]);
        assert_eq!(shown("4k,8k"), ["4k", "8k", "8k"]);
        assert_eq!(shown("4k,8k,1m"), ["4k", "8k", "1m"]);
        assert_eq!(shown(",8k"), ["", "8k", "8k"]);
    }
}
