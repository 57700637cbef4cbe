//! The times of a scan: [`Timetable`], the windows of local time in which it may read, and
//! [`Repetition`], the time from one start to the next.
//!
//! A window is open while a clock on the wall shows a time in it. So a window that a change to
//! summer time skips is not open on that day, and one that the change back repeats is open twice.
//! Nothing is kept between two questions, so a clock that is set needs no treatment here.

use std::fmt;
use std::str::FromStr;

use jiff::civil::{DateTime, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{Span, SpanRelativeTo, Timestamp, ToSpan as _, Zoned};

/// Windows of local time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timetable {
    /// The text, for people and for the state.
    text: String,
    windows: Vec<Window>,
}

/// A window of each of some days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    /// The days on which it begins: Monday is bit 0.
    days: u8,
    /// Minutes of the day; an end that is no later than the start is on the next day.
    start: u16,
    end: u16,
}

/// The time from one start of a scan to the next, such as `4w`.
#[derive(Clone, Debug)]
pub struct Repetition {
    text: String,
    span: Span,
}

/// The reason why a text is no timetable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no timetable: {reason}; write days and times such as `Mon-Fri 22:00-06:00`, and \
        `;` between several"
)]
pub struct TimetableError {
    text: String,
    reason: String,
}

/// The reason why a text is no time between starts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no time from start to start; write a time such as `4w`, `1d` or `12h`")]
pub struct RepetitionError {
    text: String,
}

const DAY: u16 = 24 * 60;
const EVERY_DAY: u8 = 0b111_1111;
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
/// A window that one change of the clocks skips is open a week later.
const SEARCHED_DAYS: i64 = 15;

impl Timetable {
    /// Returns whether a window is open when a clock on the wall shows this.
    #[must_use]
    pub fn is_open(&self, at: DateTime) -> bool {
        self.windows.iter().any(|window| window.is_open(at))
    }

    /// The next time at which a window opens; `None` if one is open.
    #[must_use]
    pub fn next_opening(&self, now: &Zoned) -> Option<Zoned> {
        if self.is_open(now.datetime()) {
            return None;
        }
        let zone = now.time_zone();
        let end = now.checked_add(SEARCHED_DAYS.days()).ok()?;
        let starts = now.date().series(1.day()).take(SEARCHED_DAYS as usize).flat_map(|date| {
            let today = self.windows.iter().filter(move |window| window.is_on(date.weekday()));
            today.flat_map(move |window| {
                let found = zone.to_ambiguous_zoned(date.to_datetime(time_of(window.start)));
                [found.clone().earlier(), found.later()].into_iter().flatten()
            })
        });
        // A change of the clocks may go right into a window.
        let changes = zone
            .following(now.timestamp())
            .map(|change| change.timestamp().to_zoned(zone.clone()))
            .take_while(|at| *at < end);
        let times = starts.chain(changes);
        times.filter(|at| at > now && self.is_open(at.datetime())).min()
    }
}

impl Window {
    fn is_on(&self, day: Weekday) -> bool {
        self.days >> day.to_monday_zero_offset() & 1 == 1
    }

    fn is_open(&self, at: DateTime) -> bool {
        let minute = at.hour() as u16 * 60 + at.minute() as u16;
        let today = self.is_on(at.weekday());
        if self.start < self.end {
            return today && (self.start..self.end).contains(&minute);
        }
        let yesterday = self.is_on(at.weekday().previous());
        (today && minute >= self.start) || (yesterday && minute < self.end)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let (first, second) = (words.next(), words.next());
        let (days, times) = match (first, second, words.next()) {
            (Some(word), None, _) if word.contains(':') => (None, Some(word)),
            (Some(days), times, None) => (Some(days), times),
            (None, ..) => return Err("a window is empty".to_owned()),
            _ => return Err(format!("`{text}` is neither days nor days and times")),
        };
        let days = days.map_or(Ok(EVERY_DAY), days_of)?;
        let (start, end) = times.map_or(Ok((0, DAY)), times_of)?;
        Ok(Self { days, start, end })
    }
}

/// Parses days such as `Mon-Fri` or `Sat,Sun`.
fn days_of(text: &str) -> Result<u8, String> {
    let day = |name: &str| {
        let lower = name.to_ascii_lowercase();
        let found = DAYS.iter().position(|day| *day == lower);
        found.ok_or_else(|| format!("`{name}` is no day; days are Mon Tue Wed Thu Fri Sat Sun"))
    };
    let mut days = 0;
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (mut at, last) = (day(first)?, day(last)?);
        days |= 1 << at;
        while at != last {
            at = (at + 1) % DAYS.len();
            days |= 1 << at;
        }
    }
    Ok(days)
}

/// Parses times such as `22:00-06:00`, as minutes of the day.
fn times_of(text: &str) -> Result<(u16, u16), String> {
    let time = |time: &str| {
        let parts = time.split_once(':').filter(|(hour, minute)| {
            (1..=2).contains(&hour.len()) && minute.len() == 2 && !time.contains('+')
        });
        let minutes = parts.and_then(|(hour, minute)| {
            let (hour, minute): (u16, u16) = (hour.parse().ok()?, minute.parse().ok()?);
            (minute < 60 && hour * 60 + minute <= DAY).then_some(hour * 60 + minute)
        });
        minutes.ok_or_else(|| format!("`{time}` is no time from 00:00 to 24:00"))
    };
    let (start, end) =
        text.split_once('-').ok_or_else(|| format!("`{text}` is no window such as 22:00-06:00"))?;
    let (start, end) = (time(start)?, time(end)?);
    if start % DAY == end {
        return Err(format!("{text} has no length, and a whole day is 00:00-24:00"));
    }
    if start == DAY {
        return Err(format!("{text} starts at 24:00, which is 00:00 of the next day"));
    }
    Ok((start, end))
}

fn time_of(minute: u16) -> Time {
    Time::midnight() + i64::from(minute).minutes()
}

impl FromStr for Timetable {
    type Err = TimetableError;

    fn from_str(text: &str) -> Result<Self, TimetableError> {
        let windows = text.split(';').map(Window::parse).collect::<Result<_, _>>();
        let error = |reason| TimetableError { text: text.to_owned(), reason };
        Ok(Self { text: text.trim().to_owned(), windows: windows.map_err(error)? })
    }
}

impl fmt::Display for Timetable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Repetition {
    /// The time at which a scan that started at `started` starts again; `None` if that is after the
    /// last time there is. Days and weeks keep the time of day when the clocks change.
    #[must_use]
    pub fn after(&self, started: Timestamp, zone: &TimeZone) -> Option<Zoned> {
        started.to_zoned(zone.clone()).checked_add(self.span).ok()
    }
}

impl PartialEq for Repetition {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Repetition {}

impl FromStr for Repetition {
    type Err = RepetitionError;

    fn from_str(text: &str) -> Result<Self, RepetitionError> {
        let error = || RepetitionError { text: text.to_owned() };
        let span: Span = text.parse().map_err(|_| error())?;
        let seconds = span.total((jiff::Unit::Second, SpanRelativeTo::from(EPOCH)));
        match seconds {
            Ok(seconds) if seconds >= 1.0 => Ok(Self { text: text.trim().to_owned(), span }),
            _ => Err(error()),
        }
    }
}

impl fmt::Display for Repetition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Any date, to compare spans.
const EPOCH: jiff::civil::Date = jiff::civil::date(1970, 1, 1);

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;

    /// Central Europe: summer time from 2026-03-29 02:00 to 2026-10-25 03:00.
    fn zone() -> TimeZone {
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a zone")
    }

    fn at(day: (i16, i8, i8), hour: i8, minute: i8) -> Zoned {
        date(day.0, day.1, day.2).at(hour, minute, 0, 0).to_zoned(zone()).expect("a time")
    }

    fn opening(table: &str, now: &Zoned) -> String {
        let table: Timetable = table.parse().expect(table);
        table
            .next_opening(now)
            .map_or("open".to_owned(), |at| at.strftime("%a %F %H:%M %Z").to_string())
    }

    #[test]
    fn a_window_belongs_to_the_day_on_which_it_begins() {
        let nights = "Mon-Fri 22:00-06:00";
        // 2026-11-27 is a Friday.
        for (day, hour, expected) in [
            (27, 21, "Fri 2026-11-27 22:00 CET"),
            (27, 22, "open"),
            (28, 5, "open"),
            (28, 6, "Mon 2026-11-30 22:00 CET"),
            (30, 5, "Mon 2026-11-30 22:00 CET"),
        ] {
            assert_eq!(opening(nights, &at((2026, 11, day), hour, 0)), expected, "{day} {hour}");
        }
        assert_eq!(opening("Sat,Sun; 01:30-02:00", &at((2026, 11, 29), 23, 59)), "open");
        assert_eq!(
            opening("Sat,Sun; 1:30-02:00", &at((2026, 11, 30), 0, 0)),
            "Mon 2026-11-30 01:30 CET"
        );
        assert_eq!(opening("Sat-Mon", &at((2026, 11, 24), 0, 0)), "Sat 2026-11-28 00:00 CET");
        assert_eq!(opening("00:00-24:00", &at((2026, 11, 24), 23, 59)), "open");
    }

    #[test]
    fn windows_follow_the_wall_when_the_clocks_change() {
        // On 2026-03-29 there is no time from 02:00 to 03:00.
        let night = at((2026, 3, 29), 1, 59);
        assert_eq!(opening("Sun 02:15-02:45", &night), "Sun 2026-04-05 02:15 CEST");
        assert_eq!(opening("Sun 02:15-04:00", &night), "Sun 2026-03-29 03:00 CEST");
        let table: Timetable = "Sun 01:00-02:30".parse().expect("a timetable");
        assert!(table.is_open(night.datetime()));
        assert!(!table.is_open((&night + 1.minute()).datetime()), "02:30 has passed");
        // On 2026-10-25 the time from 02:00 to 03:00 comes twice.
        let first = at((2026, 10, 25), 2, 50);
        assert_eq!(first.strftime("%Z").to_string(), "CEST");
        assert_eq!(opening("Sun 02:15-02:45", &first), "Sun 2026-10-25 02:15 CET");
    }

    #[test]
    fn days_between_starts_keep_the_time_of_day_and_hours_do_not() {
        let started = at((2026, 3, 28), 22, 0).timestamp();
        for (every, expected) in [
            ("1d", "Sun 2026-03-29 22:00 CEST"),
            ("24h", "Sun 2026-03-29 23:00 CEST"),
            ("4w", "Sat 2026-04-25 22:00 CEST"),
            ("1mo", "Tue 2026-04-28 22:00 CEST"),
        ] {
            let every: Repetition = every.parse().expect(every);
            let next = every.after(started, &zone()).expect("a time");
            assert_eq!(next.strftime("%a %F %H:%M %Z").to_string(), expected, "{every}");
        }
    }

    #[test]
    fn other_texts_are_refused_with_the_reason_and_an_example() {
        for (text, reason) in [
            ("", "a window is empty"),
            ("Mon-Fri 22:00-06:00;", "a window is empty"),
            ("Mo 22:00-06:00", "`Mo` is no day"),
            ("Mon 22-06", "`22` is no time"),
            ("22:60-23:00", "`22:60` is no time"),
            ("22:00-24:01", "`24:01` is no time"),
            ("06:00-06:00", "has no length"),
            ("24:00-06:00", "starts at 24:00"),
            ("22:00", "`22:00` is no window"),
            ("Mon 22:00-23:00 CET", "neither days nor"),
            ("-1:00-02:00", "is no time"),
        ] {
            let error = text.parse::<Timetable>().expect_err(text).to_string();
            assert!(error.contains(reason) && error.contains("Mon-Fri 22:00-06:00"), "{error}");
        }
        for text in ["", "4", "weekly", "-1d", "0s", "1 fortnight"] {
            let error = text.parse::<Repetition>().expect_err(text).to_string();
            assert!(error.contains("4w"), "{error}");
        }
    }
}
