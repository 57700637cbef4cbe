//! Writes the man pages and the shell completions: `pages DIRECTORY`. They come from the command
//! line as clap sees it and from the tables of keys that the reader of configurations uses.

use std::fs;
use std::io;
use std::path::Path;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};
use headtime_serve::config::{
    CLIENT_KEYS, Key, LIMIT_KEYS, MAP_KEYS, SCAN_KEYS, SERVER_KEYS, TLS_KEYS, VOLUME_KEYS,
};

#[allow(dead_code, reason = "the test of the pages uses `write_pages` alone")]
fn main() -> io::Result<()> {
    let directory = std::env::args_os().nth(1);
    let directory = directory.ok_or_else(|| io::Error::other("usage: pages DIRECTORY"))?;
    write_pages(Path::new(&directory))
}

/// Writes `man/*.1`, `man/headtime.toml.5` and `completions/*`.
pub(crate) fn write_pages(directory: &Path) -> io::Result<()> {
    let mut command = headtime_cli::command().disable_help_subcommand(true);
    let completions = directory.join("completions");
    fs::create_dir_all(&completions)?;
    for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
        clap_complete::generate_to(shell, &mut command, "headtime", &completions)?;
    }
    let pages = directory.join("man");
    fs::create_dir_all(&pages)?;
    command.build();
    write_command_pages(&command, &pages)?;
    fs::write(pages.join("headtime.toml.5"), configuration_page())
}

fn write_command_pages(command: &Command, directory: &Path) -> io::Result<()> {
    command.get_subcommands().try_for_each(|command| write_command_pages(command, directory))?;
    let source = concat!("headtime ", env!("CARGO_PKG_VERSION"));
    let page = Man::new(command.clone()).manual("Headtime").source(source).date("");
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if command.has_subcommands() {
        page.render_subcommands_section(&mut text)?;
    }
    let mut end = Roff::new();
    // The long help of `serve` lists the keys of the configuration, which have a page.
    if let Some(notes) = command.get_after_help().or_else(|| command.get_after_long_help()) {
        end.control("SH", ["NOTES"]);
        as_typed(&mut end, &notes.to_string());
    }
    end.control("SH", ["SEE ALSO"]);
    end.text([bold("headtime"), roman("(1), "), bold("headtime.toml"), roman("(5)")]);
    end.to_writer(&mut text)?;
    fs::write(directory.join(page.get_filename()), text)
}

/// The page of the configuration file.
fn configuration_page() -> String {
    let mut page = Roff::new();
    page.control("TH", ["headtime.toml", "5", "", "", "Headtime"]);
    page.control("SH", ["NAME"]);
    page.text([roman("headtime.toml - configuration of headtime serve")]);
    page.control("SH", ["DESCRIPTION"]);
    page.text([roman(
        "A TOML file that `headtime serve --config` and `headtime check-config` read. The files \
         conf.d/*.toml in its directory are read first, in the order of their names: what all \
         servers of a host share. A key replaces the same key of a file before it; volumes, scans \
         and clients are added. Options of the command line come last. The unit \
         headtime@NAME.service reads /etc/headtime/NAME.toml.",
    )]);
    section(&mut page, "KEYS AT THE TOP", SERVER_KEYS);
    section(&mut page, "KEYS OF [[volume]]", VOLUME_KEYS);
    section(&mut page, "KEYS OF [[scan]]", SCAN_KEYS);
    section(&mut page, "KEYS OF [map]", MAP_KEYS);
    section(&mut page, "KEYS OF [limits]", LIMIT_KEYS);
    section(&mut page, "KEYS OF [tls]", TLS_KEYS);
    section(&mut page, "KEYS OF [[client]]", CLIENT_KEYS);
    page.control("SH", ["EXAMPLE"]);
    as_typed(&mut page, EXAMPLE);
    page.control("SH", ["SEE ALSO"]);
    page.text([
        bold("headtime-serve"),
        roman("(1), "),
        bold("headtime-check-config"),
        roman("(1)"),
    ]);
    page.render()
}

fn section<T>(page: &mut Roff, heading: &str, keys: &[Key<T>]) {
    page.control("SH", [heading]);
    for key in keys {
        page.control("TP", []);
        page.text([bold(key.name), roman(" = "), italic(key.takes)]);
        page.text([roman(format!("{} [default: {}]", key.summary, key.default))]);
    }
}

/// Adds text with the line breaks that it has.
fn as_typed(page: &mut Roff, text: &str) {
    page.control("nf", []);
    text.lines().for_each(|line| {
        page.text([roman(line)]);
    });
    page.control("fi", []);
}

pub(crate) const EXAMPLE: &str = include_str!("../../../contrib/headtime.toml");
