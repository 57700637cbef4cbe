//! The log of the program on standard error.

use clap::ValueEnum;
use tracing_subscriber::filter::LevelFilter;

/// The amount of logging.
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
    // Fails only if a logger is already installed, as in a test process.
    let _ = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        // It would panic when nothing reads standard error any more.
        .log_internal_errors(false)
        .try_init();
}
