//! The live view where there is no terminal: one line per second for the drive and each volume,
//! without escape codes.

use super::Moment;
use crate::figures::{show_ms, show_percent};

/// The lines of one moment, the drive's first.
pub fn lines(moment: &Moment) -> Vec<String> {
    let drive = &moment.drive;
    let mut first = format!(
        "{:>5.0} s  {}  busy {}  outstanding {:.1}",
        moment.elapsed_seconds,
        drive.policy,
        show_percent(drive.utilization),
        drive.outstanding
    );
    if let Some(split) = drive.disk_time {
        for (part, share) in split.parts() {
            first.push_str(&format!("  {part} {}", show_percent(share)));
        }
    }
    if let Some(late) = drive.lateness {
        first.push_str(&format!("  late p99 {:.0} us", late.p99_us));
    }
    let volumes = moment.volumes.iter().map(|volume| {
        let last = &volume.last;
        let mut line = format!(
            "{:>5.0} s  {:<10} {:>7.1} MiB/s {:>7.1} IOPS  response ms p50 {} p99 {} max {}  in \
                flight {}",
            moment.elapsed_seconds,
            volume.name,
            last.mib_per_second,
            last.iops,
            show_ms(last.p50_ms),
            show_ms(last.p99_ms),
            show_ms(last.max_ms),
            last.in_flight,
        );
        if volume.has_deadlines() {
            line.push_str(&format!(
                "  misses {} (all {} of {})",
                last.deadline_misses, volume.total.deadline_misses, volume.total.deadline_requests
            ));
        }
        line
    });
    let scans =
        moment.scans.iter().map(|scan| format!("{:>5.0} s  {scan}", moment.elapsed_seconds));
    std::iter::once(first).chain(volumes).chain(scans).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{DriveFigures, VolumeSample, VolumeTotals};
    use crate::view::LiveVolume;

    #[test]
    fn misses_are_shown_only_with_a_deadline_and_nothing_is_colored() {
        let recorder = LiveVolume {
            name: "recorder".into(),
            deadline_ms: Some(100.0),
            last: VolumeSample {
                mib_per_second: 20.0,
                deadline_misses: 3,
                p50_ms: 12.3,
                ..VolumeSample::default()
            },
            total: VolumeTotals {
                deadline_requests: 40,
                deadline_misses: 5,
                ..VolumeTotals::default()
            },
            ..LiveVolume::default()
        };
        let backup = LiveVolume { name: "backup".into(), ..LiveVolume::default() };
        let drive =
            DriveFigures { policy: "fcfs".into(), utilization: 0.995, ..DriveFigures::default() };
        let scans = vec!["scrub of recorder: running".to_string()];
        let lines = lines(&Moment {
            elapsed_seconds: 7.0,
            drive,
            volumes: vec![recorder, backup],
            scans,
            ..Moment::default()
        });
        assert_eq!(lines.len(), 4);
        assert!(lines[3].ends_with("s  scrub of recorder: running"), "{}", lines[3]);
        assert!(lines[0].contains("fcfs") && lines[0].contains("busy 100 %"), "{}", lines[0]);
        assert!(
            lines[1].contains("20.0 MiB/s")
                && lines[1].contains("p50 12.3")
                && lines[1].ends_with("misses 3 (all 5 of 40)"),
            "{}",
            lines[1]
        );
        assert!(!lines[2].contains("misses"), "{}", lines[2]);
        assert!(lines.iter().all(|line| !line.contains('\u{1b}') && !line.contains('\n')));
    }
}
