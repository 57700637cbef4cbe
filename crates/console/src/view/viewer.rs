//! [`Viewer`]: the live view in whichever form fits where the output goes.

use std::io::{IsTerminal as _, Write as _};

use anyhow::Context as _;

use super::{Moment, Screen, ViewKey, lines};

/// Shows moments as they come.
pub enum Viewer {
    /// On the whole terminal.
    Screen(Box<Screen>),
    /// As lines on standard output.
    Lines,
    /// As lines on standard error, because standard output carries something else.
    LinesAside,
}

impl Viewer {
    /// The terminal if standard output is one, otherwise lines.
    ///
    /// # Errors
    /// When the terminal cannot be taken over.
    pub fn for_stdout() -> anyhow::Result<Self> {
        if std::io::stdout().is_terminal() && std::io::stdin().is_terminal() {
            return Ok(Self::Screen(Box::new(
                Screen::open().context("the terminal cannot be taken over; run with --plain")?,
            )));
        }
        Ok(Self::Lines)
    }

    /// Shows one moment. A reader of lines that went away is no error.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn show(&mut self, moment: &Moment) -> anyhow::Result<()> {
        match self {
            Self::Screen(screen) => {
                screen.show(moment).context("the terminal cannot be drawn on")?
            }
            Self::Lines => {
                let _ = writeln!(std::io::stdout(), "{}", lines(moment).join("\n"));
            }
            Self::LinesAside => {
                let _ = writeln!(std::io::stderr(), "{}", lines(moment).join("\n"));
            }
        }
        Ok(())
    }

    /// Says one line between moments, where it does not disturb them.
    pub fn say(&self, line: &str) {
        match self {
            Self::Screen(_) => {}
            Self::Lines => {
                let _ = writeln!(std::io::stdout(), "{line}");
            }
            Self::LinesAside => {
                let _ = writeln!(std::io::stderr(), "{line}");
            }
        }
    }

    /// Returns true if the user requested a stop at the keyboard.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn stop_asked(&mut self) -> anyhow::Result<bool> {
        match self {
            Self::Screen(screen) => {
                Ok(screen.key().context("the keyboard cannot be read")? == Some(ViewKey::Stop))
            }
            Self::Lines | Self::LinesAside => Ok(false),
        }
    }
}
