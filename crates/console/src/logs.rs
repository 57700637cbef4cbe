//! What the program's rooms log while they work, on standard error.

use clap::ValueEnum;
use tracing_subscriber::filter::LevelFilter;

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Level {
    /// Log nothing
    Off,
    /// Log failures
    Error,
    /// Log possible problems
    Warn,
    /// Log events
    Info,
    /// Log events in detail
    Debug,
}

/// Logs from here on; the second call changes nothing.
pub fn start(level: Level) {
    let level = match level {
        Level::Off => LevelFilter::OFF,
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
    };
    // Refused only when somebody logs already, as in a test process.
    let _ = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .try_init();
}
