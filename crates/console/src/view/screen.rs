//! The live view on a terminal.
//!
//! [`draw`] paints one [`Moment`] and knows nothing of terminals; [`Screen`] owns the terminal: raw
//! mode and the alternate screen while it lives, both given back when it is dropped, whatever ended
//! the program's work.

use std::io::{self, Stdout};
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::event::KeyCode;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize as _};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Sparkline, Table};

use super::{LiveVolume, Moment};
use crate::figures::{DriveFigures, show_ms, show_percent};
use crate::output::busiest;

/// The colors of the parts of disk time, in the order of [`crate::figures::DiskTimeShares::parts`],
/// and characters that tell them apart without color.
const PARTS: [(Color, &str); 6] = [
    (Color::Red, "█"),
    (Color::Yellow, "▓"),
    (Color::Green, "▒"),
    (Color::Magenta, "░"),
    (Color::Cyan, "·"),
    (Color::DarkGray, "▞"),
];

/// The terminal, taken over for as long as this lives.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    keys: Keys,
}

/// The keyboard: `q` and Escape ask before they stop.
#[derive(Debug, Default)]
struct Keys {
    asks: bool,
}

/// A command from the keyboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewKey {
    /// `q` or Escape and then `y`, or Ctrl-C: stop.
    Stop,
}

impl Screen {
    /// Takes the terminal over.
    ///
    /// # Errors
    /// When standard output is no terminal that can be taken over.
    pub fn open() -> io::Result<Self> {
        // A panic must not leave the user's terminal raw: the hook gives it back before the message
        // is printed.
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
        crossterm::terminal::enable_raw_mode()?;
        TAKEN.store(true, Ordering::SeqCst);
        crossterm::execute!(
            io::stdout(),
            crossterm::terminal::EnterAlternateScreen,
            crossterm::cursor::Hide
        )?;
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        Ok(Self { terminal, keys: Keys::default() })
    }

    /// Shows one moment.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn show(&mut self, moment: &Moment) -> io::Result<()> {
        let question = self.keys.asks.then(|| Moment {
            footer: "stop? y stops, any other key continues".to_owned(),
            ..moment.clone()
        });
        let moment = question.as_ref().unwrap_or(moment);
        self.terminal.draw(|frame| draw(frame, moment))?;
        Ok(())
    }

    /// Returns the command typed since the last call, if any, without waiting. In raw mode Ctrl-C
    /// is a key and not a signal.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn key(&mut self) -> io::Result<Option<ViewKey>> {
        use crossterm::event::{Event, KeyModifiers, poll, read};
        while poll(std::time::Duration::ZERO)? {
            if let Event::Key(key) = read()? {
                let interrupt =
                    key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
                if interrupt || self.keys.stop(key.code) {
                    return Ok(Some(ViewKey::Stop));
                }
            }
        }
        Ok(None)
    }
}

impl Keys {
    /// Takes a key in; returns true if it confirms a stop.
    fn stop(&mut self, key: KeyCode) -> bool {
        if std::mem::take(&mut self.asks) {
            return key == KeyCode::Char('y');
        }
        self.asks = matches!(key, KeyCode::Char('q') | KeyCode::Esc);
        false
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Restores the terminal if the view uses it; a second call does nothing. Errors are ignored
/// because the terminal is gone.
pub fn give_back() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = crossterm::terminal::disable_raw_mode();
        let _ = crossterm::execute!(
            io::stdout(),
            crossterm::terminal::LeaveAlternateScreen,
            crossterm::cursor::Show
        );
    }
}

/// True while the view uses the terminal, of which the program has one.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Paints one moment over the whole of `frame`.
pub fn draw(frame: &mut ratatui::Frame<'_>, moment: &Moment) {
    let rows = moment.volumes.len() as u16;
    let scans_rows = moment.scans.len() as u16;
    let heights = [2, 5, rows + 3, scans_rows]
        .map(Constraint::Length)
        .into_iter()
        .chain([Constraint::Min(0), Constraint::Length(1)]);
    let [head, drive, table, scans, curves, foot] = Layout::vertical(heights).areas(frame.area());
    draw_head(frame, head, moment);
    draw_drive(frame, drive, &moment.drive);
    draw_volumes(frame, table, moment);
    frame.render_widget(
        Paragraph::new(
            moment.scans.iter().map(|scan| Line::from(scan.as_str())).collect::<Vec<_>>(),
        ),
        scans,
    );
    draw_curves(frame, curves, moment);
    frame.render_widget(Paragraph::new(moment.footer.as_str()).dim(), foot);
}

fn draw_head(frame: &mut ratatui::Frame<'_>, area: Rect, moment: &Moment) {
    let [title, bar] = Layout::vertical([Constraint::Length(1), Constraint::Length(1)]).areas(area);
    let time = match moment.total_seconds {
        Some(total) => format!("{:.0} of {total:.0} s", moment.elapsed_seconds.min(total)),
        None => format!("{:.0} s", moment.elapsed_seconds),
    };
    let [left, right] =
        Layout::horizontal([Constraint::Min(0), Constraint::Length(time.len() as u16)])
            .spacing(1)
            .areas(title);
    frame.render_widget(Paragraph::new(moment.title.as_str()).bold(), left);
    frame.render_widget(Paragraph::new(time).alignment(Alignment::Right), right);
    if let Some(total) = moment.total_seconds {
        let done = (moment.elapsed_seconds / total).clamp(0.0, 1.0);
        let filled = (f64::from(bar.width) * done) as usize;
        let line = Line::from(vec![
            Span::from("━".repeat(filled)).fg(Color::Cyan),
            Span::from("─".repeat(usize::from(bar.width) - filled)).dim(),
        ]);
        frame.render_widget(Paragraph::new(line), bar);
    }
}

fn draw_drive(frame: &mut ratatui::Frame<'_>, area: Rect, drive: &DriveFigures) {
    let block = Block::new().borders(Borders::TOP).title(" drive ");
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let mut facts = vec![
        ("policy ", Span::from(drive.policy.clone()).bold()),
        ("outstanding ", Span::from(format!("{:.1}", drive.outstanding))),
        ("busy ", Span::from(show_percent(drive.utilization))),
    ];
    if let Some(late) = drive.lateness {
        facts.push(("emulation late p99 ", Span::from(format!("{:.0} µs", late.p99_us))));
    }
    if let Some(belief) = drive.belief {
        facts.push(("prediction error ", Span::from(format!("{:.0} µs rms", belief.rms_error_us))));
    }
    let facts: Vec<_> =
        facts.into_iter().map(|(name, value)| [Span::from(name).dim(), value]).collect();
    let fits = |line: &Line<'_>| line.width() <= usize::from(inner.width);
    let first = |count| spaced(facts.iter().take(count).cloned());
    let mut lines = vec![(1..=facts.len()).rev().map(first).find(fits).unwrap_or_default()];
    if let Some(split) = drive.disk_time {
        let (mut bar, mut legend) = (Vec::new(), Vec::new());
        let width = f64::from(inner.width);
        let (mut share_before, mut cells_before) = (0.0, 0);
        for ((part, share), (color, pattern)) in split.parts().into_iter().zip(PARTS) {
            share_before += share;
            // Rounding the running sum, not each part, keeps the bar from growing or shrinking.
            let cells = (share_before.min(1.0) * width).round() as usize;
            bar.push(Span::styled(
                pattern.repeat(cells.saturating_sub(cells_before)),
                Style::new().fg(color),
            ));
            cells_before = cells.max(cells_before);
            legend.push([
                Span::styled(format!("{pattern} "), Style::new().fg(color)),
                Span::from(format!("{part} {}", show_percent(share))),
            ]);
        }
        // The largest parts have room first.
        let shares = split.parts().map(|(_, share)| share);
        let largest = |count| {
            let indices = busiest(&shares, count);
            spaced(indices.into_iter().map(|index| legend[index].clone()))
        };
        let legend = (1..=legend.len()).rev().map(largest).find(fits).unwrap_or_default();
        lines.extend([Line::from(bar), legend]);
    }
    frame.render_widget(Paragraph::new(lines), inner);
}

/// Pairs of name and value in one line.
fn spaced(items: impl Iterator<Item = [Span<'static>; 2]>) -> Line<'static> {
    let spans = items.enumerate().flat_map(|(nth, [name, value])| {
        [Span::from(if nth == 0 { "" } else { "   " }), name, value]
    });
    Line::from(spans.collect::<Vec<_>>())
}

fn draw_volumes(frame: &mut ratatui::Frame<'_>, area: Rect, moment: &Moment) {
    // Below the title and the column heads, above an empty line. A volume that waits is not idle.
    let room = usize::from(area.height.saturating_sub(2));
    let uses: Vec<f64> = (moment.volumes.iter())
        .map(|volume| volume.last.iops + volume.last.in_flight as f64)
        .collect();
    let all = moment.volumes.len();
    let indices = busiest(&uses, if all <= room { all } else { room.saturating_sub(1) });
    let others = (indices.len() < all).then(|| format!("and {} more", all - indices.len()));
    let longest =
        moment.volumes.iter().map(|volume| volume.name.len()).max().unwrap_or(0).clamp(12, 24)
            as u16;
    let shown = shown_columns(area.width.saturating_sub(longest));
    let shown_header = shown.iter().map(|column| cell(COLUMNS[*column].0.to_string(), true));
    let header = Row::new(std::iter::once(cell("volume".to_string(), false)).chain(shown_header))
        .style(Style::new().add_modifier(Modifier::DIM));
    let rows = indices.iter().map(|index| {
        let volume = &moment.volumes[*index];
        let (last, total) = (&volume.last, &volume.total);
        let (missed, all_missed) = if volume.has_deadlines() {
            (
                last.deadline_misses.to_string(),
                format!(
                    "{} ({})",
                    total.deadline_misses,
                    show_percent(total.miss_share().unwrap_or(0.0))
                ),
            )
        } else {
            ("·".to_string(), "·".to_string())
        };
        let alarm = |missed: bool| {
            if missed {
                Style::new().fg(Color::Red).add_modifier(Modifier::BOLD)
            } else {
                Style::new()
            }
        };
        let name = cell(cut(&volume.name, longest.into()), false)
            .style(Style::new().add_modifier(Modifier::BOLD));
        let cells = [
            cell(format!("{:.1}", last.mib_per_second), true),
            cell(format!("{:.1}", last.iops), true),
            cell(show_ms(last.p50_ms), true),
            cell(show_ms(last.p99_ms), true),
            cell(show_ms(last.max_ms), true),
            cell(last.in_flight.to_string(), true),
            cell(missed, true).style(alarm(last.deadline_misses > 0)),
            cell(show_ms(total.response_ms.p99), true),
            cell(all_missed, true).style(alarm(total.deadline_misses > 0)),
        ];
        let selected = cells.into_iter().enumerate().filter(|(column, _)| shown.contains(column));
        Row::new(std::iter::once(name).chain(selected.map(|(_, cell)| cell)))
    });
    let widths = shown.iter().map(|column| COLUMNS[*column].1);
    let widths = std::iter::once(longest).chain(widths).map(Constraint::Length);
    let table = Table::new(rows.chain(others.map(|text| Row::new([cell(text, false)]))), widths)
        .header(header)
        .column_spacing(1)
        .block(Block::new().borders(Borders::TOP).title(" last second "));
    frame.render_widget(table, area);
}

/// The columns after the name: title, width, and the rank by which they are shown.
const COLUMNS: [(&str, u16, usize); 9] = [
    ("MiB/s", 8, 1),
    ("IOPS", 8, 0),
    ("p50 ms", 8, 5),
    ("p99 ms", 8, 2),
    ("max ms", 8, 7),
    ("in flight", 9, 6),
    ("missed", 7, 3),
    ("all p99 ms", 10, 8),
    ("all missed", 14, 4),
];

/// The columns that fit `width`, the most important ones, in their order.
fn shown_columns(width: u16) -> Vec<usize> {
    let mut by_rank: Vec<usize> = (0..COLUMNS.len()).collect();
    by_rank.sort_by_key(|column| COLUMNS[*column].2);
    let mut left = width;
    let mut shown: Vec<usize> = by_rank
        .into_iter()
        .map_while(|column| {
            left = left.checked_sub(COLUMNS[column].1 + 1)?;
            Some(column)
        })
        .collect();
    shown.sort_unstable();
    shown
}

/// A name in at most `width` characters.
fn cut(name: &str, width: usize) -> String {
    if name.chars().count() <= width {
        return name.to_owned();
    }
    name.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

fn cell(text: String, right: bool) -> Cell<'static> {
    let line = Line::from(text);
    Cell::from(if right { line.alignment(Alignment::Right) } else { line })
}

/// The minimum width of a volume's curve; on a narrower screen only the busiest have one.
const MIN_CURVE_WIDTH: u16 = 18;

fn draw_curves(frame: &mut ratatui::Frame<'_>, area: Rect, moment: &Moment) {
    if moment.volumes.is_empty() || area.height < 3 {
        return;
    }
    let peak =
        |volume: &LiveVolume| volume.history_mib_per_second.iter().copied().fold(0.0, f64::max);
    let peaks: Vec<f64> = moment.volumes.iter().map(peak).collect();
    let indices = busiest(&peaks, usize::from(area.width / MIN_CURVE_WIDTH).max(1));
    let areas = Layout::horizontal(vec![Constraint::Fill(1); indices.len()]).spacing(1).split(area);
    for (index, area) in indices.into_iter().zip(areas.iter()) {
        let (volume, peak) = (&moment.volumes[index], peaks[index]);
        let titles = [format!(" {} (peak {peak:.1} MiB/s) ", volume.name), volume.name.clone()];
        let title =
            titles.into_iter().find(|title| title.chars().count() <= usize::from(area.width));
        let title = title.unwrap_or_else(|| cut(&volume.name, area.width.into()));
        let block = Block::new().borders(Borders::TOP).title(title);
        let newest = usize::from(area.width).min(volume.history_mib_per_second.len());
        // Sparkline wants whole numbers; a thousandth of a MiB/s is fine enough.
        let bars: Vec<u64> = volume
            .history_mib_per_second
            .iter()
            .skip(volume.history_mib_per_second.len() - newest)
            .map(|value| (value * 1e3) as u64)
            .collect();
        frame.render_widget(
            Sparkline::default().block(block).data(&bars).style(Style::new().fg(Color::Cyan)),
            *area,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{
        BeliefFigures, DiskTimeShares, LatenessFigures, VolumeSample, VolumeTotals,
    };
    use crate::view::{HISTORY, LiveVolume};
    use ratatui::backend::TestBackend;

    fn moment() -> Moment {
        let mut recorder = LiveVolume {
            name: "recorder".into(),
            deadline_ms: None, // by priority
            ..LiveVolume::default()
        };
        let sample = VolumeSample {
            mib_per_second: 20.25,
            iops: 40.5,
            p50_ms: 12.3,
            deadline_misses: 4,
            ..VolumeSample::default()
        };
        let total =
            VolumeTotals { deadline_requests: 80, deadline_misses: 8, ..VolumeTotals::default() };
        for _ in 0..HISTORY + 10 {
            recorder.push(sample, total);
        }
        let split = DiskTimeShares {
            seek: 0.4,
            rotate: 0.35,
            transfer: 0.2,
            overhead: 0.05,
            idle: 0.0,
            background: 0.0,
        };
        Moment {
            title: "headtime demo".into(),
            elapsed_seconds: 9.0,
            total_seconds: Some(30.0),
            drive: DriveFigures {
                policy: "fcfs".into(),
                utilization: 1.0,
                disk_time: Some(split),
                ..DriveFigures::default()
            },
            volumes: vec![recorder, LiveVolume { name: "backup".into(), ..LiveVolume::default() }],
            scans: vec!["scrub of backup: running, 12.0 %".into()],
            footer: "q stops".into(),
        }
    }

    fn painted(width: u16, height: u16) -> String {
        painted_of(&moment(), width, height)
    }

    fn painted_of(moment: &Moment, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a test terminal");
        terminal.draw(|frame| draw(frame, moment)).expect("painted");
        terminal.backend().to_string()
    }

    #[test]
    fn the_screen_shows_each_volume_its_misses_and_where_the_time_goes() {
        let screen = painted(120, 30);
        for expected in [
            "headtime demo",
            "9 of 30 s",
            "policy fcfs",
            "seek 40 %",
            "recorder",
            "20.2",
            "12.3",
            "8 (10 %)",
            "backup",
            "peak 20.2 MiB/s",
            "scrub of backup",
            "q stops",
        ] {
            assert!(screen.contains(expected), "{expected} is missing from\n{screen}");
        }
    }

    #[test]
    fn a_usual_terminal_shows_whole_names_and_the_bar_differs_without_color() {
        let screen = painted(80, 24);
        for expected in ["recorder ", "20.2", "8 (10 %)", "█ seek", "▓ rotat", "▒ transfer"] {
            assert!(screen.contains(expected), "{expected} is missing from\n{screen}");
        }
        assert!(!screen.contains("all p99 ms"), "it does not fit:\n{screen}");
        assert!(screen.contains("█▓") && screen.contains("▓▒"), "{screen}");
    }

    #[test]
    fn nothing_is_cut_in_the_middle() {
        let mut moment = moment();
        moment.title = "headtime serve  emulated:nearline-20tb".into();
        moment.drive.lateness = Some(LatenessFigures { p99_us: 69.0, ..Default::default() });
        moment.drive.belief = Some(BeliefFigures { rms_error_us: 29.0, ..Default::default() });
        moment.volumes[1].name = "a-name-of-more-than-twenty-letters".into();
        let screen = painted_of(&moment, 40, 24);
        assert!(screen.contains("nearl 9 of 30 s"), "{screen}");
        assert!(!screen.contains("emulation late"), "it does not fit:\n{screen}");
        assert!(screen.contains("█ seek 40 %   ▓ rotate 35 %"), "{screen}");
        assert!(!screen.contains("▒ tr") && screen.contains("a-name-of-more-tha…"), "{screen}");
        let screen = painted_of(&moment, 80, 24);
        assert!(screen.contains("late p99 69 µs") && !screen.contains("pred"), "{screen}");
    }

    #[test]
    fn more_volumes_than_lines_leave_out_the_idle_ones() {
        let mut moment = moment();
        moment.volumes = (0..30)
            .map(|nth| {
                let mut volume = LiveVolume { name: format!("vm{nth}"), ..LiveVolume::default() };
                let busy = if nth == 29 { 40.0 } else { 0.0 };
                let last = VolumeSample { iops: busy, mib_per_second: busy, ..Default::default() };
                volume.push(last, VolumeTotals::default());
                volume
            })
            .collect();
        let screen = painted_of(&moment, 80, 24);
        assert!(screen.contains("vm29") && screen.contains("more"), "{screen}");
        assert!(screen.contains("q stops"), "{screen}");
    }

    #[test]
    fn a_stop_is_confirmed() {
        let mut keys = Keys::default();
        let typed = |keys: &mut Keys, text: &str| {
            text.chars().map(|key| keys.stop(KeyCode::Char(key))).collect::<Vec<_>>()
        };
        assert_eq!(typed(&mut keys, "yqnyqy"), [false, false, false, false, false, true]);
        assert!(!keys.stop(KeyCode::Esc) && keys.asks);
    }

    #[test]
    fn the_smallest_terminals_are_survived() {
        for (width, height) in [(1, 1), (20, 5), (80, 10), (300, 100)] {
            painted(width, height);
        }
    }

    #[test]
    fn the_curves_forget_what_is_older_than_their_width() {
        assert_eq!(moment().volumes[0].history_mib_per_second.len(), HISTORY);
    }
}
