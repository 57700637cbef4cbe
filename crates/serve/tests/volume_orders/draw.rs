//! Random commands: most are possible, some must be rejected.

use headtime_serve::control::{RelocateArguments, VolumeArguments, VolumeStatus};
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

use crate::model::{Order, SECTOR, World};

/// The volume in the configuration, so that a server always starts. Its size stays, because the
/// configuration states it too.
pub(crate) const BASE: &str = "base";
const NAMES: [&str; 6] = ["v0", "v1", "v2", "v3", "v4", "v5"];
const MIB: u64 = 1 << 20;

pub(crate) fn draw(world: &World, rng: &mut ChaCha8Rng) -> Order {
    let others: Vec<&VolumeStatus> =
        world.volumes.iter().filter(|volume| volume.name != BASE).collect();
    let any = |rng: &mut ChaCha8Rng| NAMES[rng.random_range(0..NAMES.len())].to_owned();
    if others.is_empty() || rng.random_bool(0.25) {
        let size = match rng.random_range(0..10) {
            0 => world.longest_gap() * SECTOR,
            1 => world.longest_gap() * SECTOR + SECTOR,
            2 => world.largest() * SECTOR,
            3 => world.largest() * SECTOR + SECTOR,
            _ => some_size(rng),
        };
        let settings = [("size".to_owned(), size.max(SECTOR).to_string())]
            .into_iter()
            .chain(settings(true, rng))
            .collect();
        return Order {
            verb: "volume.add",
            arguments: VolumeArguments { name: any(rng), settings, ..VolumeArguments::default() },
        };
    }
    let volume = others[rng.random_range(0..others.len())];
    let name = if rng.random_bool(0.9) { volume.name.clone() } else { any(rng) };
    let class = || {
        format!(
            "{}@{}",
            volume.name,
            if volume.number.is_multiple_of(2) { "bulk" } else { "realtime" }
        )
    };
    let (verb, name, mut settings) = match rng.random_range(0..15) {
        0..=5 => ("volume.set", name, vec![("size".to_owned(), new_size(world, volume, rng))]),
        6..=7 => ("volume.set", name, settings(true, rng)),
        8 => ("volume.set", BASE.to_owned(), settings(true, rng)),
        9 => (
            if rng.random_bool(0.5) { "volume.add" } else { "volume.set" },
            class(),
            settings(false, rng),
        ),
        10 => ("volume.remove", class(), Vec::new()),
        _ => ("volume.remove", name, Vec::new()),
    };
    if verb == "volume.set" && settings.is_empty() {
        settings.push(("deadline".to_owned(), "70ms".to_owned()));
    }
    let (cut_data, force) = (rng.random_bool(0.8), rng.random_bool(0.7));
    let settings = settings.into_iter().collect();
    Order { verb, arguments: VolumeArguments { name, settings, cut_data, force, dry_run: false } }
}

/// A relocation, with the first byte and the number of bytes that move.
pub(crate) fn draw_relocation(
    world: &World,
    rng: &mut ChaCha8Rng,
) -> (RelocateArguments, u64, u64) {
    let volume = &world.volumes[rng.random_range(0..world.volumes.len())];
    let mebibytes = volume.size_bytes.div_ceil(MIB);
    let (first, end) = if rng.random() {
        (0, mebibytes)
    } else {
        let first = rng.random_range(0..mebibytes);
        (first, rng.random_range(first + 1..=mebibytes))
    };
    let (from, end) = (first * MIB, (end * MIB).min(volume.size_bytes));
    let to = match rng.random_range(0..4) {
        0 => "start".to_owned(),
        1 => "end".to_owned(),
        2 => "largest-gap".to_owned(),
        _ => format!("{}MiB", rng.random_range(1..=world.capacity * SECTOR / MIB)),
    };
    let order = RelocateArguments {
        name: volume.name.clone(),
        from: Some(from.to_string()),
        size: Some((end - from).to_string()),
        to,
        ..RelocateArguments::default()
    };
    (order, from, end - from)
}

/// Whole and fractional mebibytes, and odd numbers of sectors.
fn some_size(rng: &mut ChaCha8Rng) -> u64 {
    let whole = rng.random_range(1..=4) * MIB;
    match rng.random_range(0..4) {
        0 => whole - rng.random_range(1..200) * 4096,
        1 => whole + rng.random_range(1..20) * SECTOR,
        _ => whole,
    }
}

/// More or less than its size, the largest possible size, or a little more.
fn new_size(world: &World, volume: &VolumeStatus, rng: &mut ChaCha8Rng) -> String {
    let most = world.most(volume) * SECTOR;
    let size = match rng.random_range(0..8) {
        0 => most,
        1 => most + SECTOR,
        2..=4 => (volume.size_bytes + some_size(rng)).min(most),
        _ => some_size(rng).min(most),
    };
    match size.checked_sub(volume.size_bytes) {
        Some(more) if more > 0 && rng.random() => format!("+{more}"),
        _ => size.to_string(),
    }
}

fn settings(of_volume: bool, rng: &mut ChaCha8Rng) -> Vec<(String, String)> {
    let mut settings = Vec::new();
    let mut set = |key: &str, text: String| settings.push((key.to_owned(), text));
    if rng.random_bool(0.5) {
        set("reserve", format!("{}%", rng.random_range(0..=35)));
    }
    if rng.random_bool(0.5) {
        set(
            "deadline",
            if rng.random_bool(0.2) {
                "none".to_owned()
            } else {
                format!("{}ms", rng.random_range(1..=500))
            },
        );
    }
    if rng.random_bool(0.2) {
        // Large enough that no client waits.
        set("iops_limit", rng.random_range(1_000_000..2_000_000).to_string());
    }
    if rng.random_bool(0.2) {
        set("weight", rng.random_range(1..=1000).to_string());
    }
    if of_volume && rng.random_bool(0.3) {
        set("description", format!("number {}", rng.random_range(0..1000)));
    }
    if of_volume && rng.random_bool(0.2) {
        set("read_only", rng.random_bool(0.3).to_string());
    }
    if of_volume && rng.random_bool(0.2) {
        set(
            "classes",
            ["none", "bulk", "realtime", "realtime+bulk"][rng.random_range(0..4)].to_owned(),
        );
    }
    settings
}
