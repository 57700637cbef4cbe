//! Measures a characterization of a simulated drive beside simulated clients, in virtual time.
//!
//! `cargo run --release -p headtime-io --example beside -- NAME nominal|drawn CLIENTS THINK_MS
//! MAX_IMPACT SECONDS SEED`: a drive of the catalog, as its profile says or with its variations
//! drawn, beside clients that read 8 KiB at random; at most `SECONDS` of drive time (0: the usual).
//! Prints how long it took, the verdict, and the clients' mean response time before and during it.
//! Takes minutes.

#[path = "../tests/beside/clients.rs"]
mod clients;

use std::error::Error;

use clients::{Load, characterized, distance, drive};
use headtime_sim::DriveTruth;
use headtime_units::Nanos;

const USAGE: &str = "expected NAME nominal|drawn CLIENTS THINK_MS MAX_IMPACT SECONDS SEED";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, kind, clients, think, max_impact, seconds, seed] = arguments.as_slice() else {
        return Err(USAGE.into());
    };
    let (profile, seed) = (drive(name), seed.parse()?);
    let truth = match kind.as_str() {
        "nominal" => DriveTruth::nominal(&profile, seed)?,
        "drawn" => DriveTruth::draw(&profile, seed)?,
        _ => return Err(USAGE.into()),
    };
    let load = Load {
        clients: clients.parse()?,
        think: Nanos::from_ms(think.parse()?),
        max_impact: max_impact.parse()?,
    };
    let seconds = Some(seconds.parse()?).filter(|seconds| *seconds > 0);
    characterized(truth, distance(&profile), load, seconds, seed).print(name);
    Ok(())
}
