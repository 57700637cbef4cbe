//! Serves a TOML configuration until SIGTERM; with `--alone` the whole drive as one
//! export.
//!
//! `cargo run -p headtime-serve --example serve_once -- serve.toml` prints the line `ready` and
//! then the URIs on standard output, and errors on standard error. The tests of this crate start
//! and kill this program; users run `headtime serve`.

use std::process::ExitCode;
use std::time::Duration;

use headtime_serve::config::Config;
use headtime_serve::{Server, serve_alone};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (alone, files): (Vec<&String>, Vec<&String>) =
        arguments.iter().partition(|argument| *argument == "--alone");
    let [file] = files[..] else {
        eprintln!("usage: serve_once [--alone] FILE.toml");
        return ExitCode::from(2);
    };
    // Before anyone knows of the server, so that no signal ends it without a drain.
    let runtime = Builder::new_current_thread().enable_io().build().expect("a runtime");
    let signals = runtime.block_on(async {
        let listen = |kind| signal(kind).expect("signals can be received");
        [SignalKind::terminate(), SignalKind::hangup()].map(listen)
    });
    match start(file, !alone.is_empty()) {
        Ok(server) => {
            println!("ready");
            server.uris().iter().for_each(|found| println!("{}", found.uri));
            until_signal(&runtime, signals, &server);
            ExitCode::from(server.drain(Duration::from_secs(20)).exit_code())
        }
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// Returns at SIGTERM. SIGHUP reloads files.
fn until_signal(runtime: &Runtime, [mut terminate, mut hangup]: [Signal; 2], server: &Server) {
    let mut reload = async || {
        tokio::select! { _ = hangup.recv() => true, _ = terminate.recv() => false }
    };
    while runtime.block_on(reload()) {
        server.reloader().on_hangup();
    }
}

fn start(file: &str, alone: bool) -> Result<Server, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let config = Config::from_toml(file, &text).map_err(|errors| errors.to_string())?;
    let started = if alone { serve_alone(&config) } else { Server::start(&config) };
    started.map_err(|error| error.to_string())
}
