//! The expected volumes: the effect of a command on them, the commands that must be rejected, and
//! the tables that may be found after a power failure.
//!
//! The model knows volumes as an administrator sees them and shares no code with the server's
//! table.

use headtime_serve::control::{
    ClassStatus, ExtentStatus, VolumeAnswer, VolumeArguments, VolumeStatus,
};
use headtime_serve::volumes::{ALIGNMENT_BYTES, AREA_BYTES, Volume, VolumeClass};

pub(crate) const SECTOR: u64 = 512;
const MIB_SECTORS: u64 = ALIGNMENT_BYTES / SECTOR;
const MAX_EXTENTS: usize = 8;

/// A command as it is sent over the control socket.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub verb: &'static str,
    pub arguments: VolumeArguments,
}

impl Order {
    pub(crate) fn setting(&self, key: &str) -> Option<&str> {
        self.arguments.settings.get(key).map(String::as_str)
    }

    /// The requested size of the volume in bytes; commands of these tests use plain bytes.
    pub(crate) fn size(&self, volume: Option<&VolumeStatus>) -> Option<u64> {
        let bytes = |text: &str| text.parse::<u64>().expect("sizes are written in bytes");
        let text = self.setting("size")?;
        Some(match text.strip_prefix('+') {
            Some(more) => volume.map_or(0, |volume| volume.size_bytes) + bytes(more),
            None => bytes(text),
        })
    }

    /// The volume of the command.
    pub(crate) fn volume(&self) -> &str {
        VolumeClass::of_export(&self.arguments.name).0
    }

    pub(crate) fn is_of_class(&self) -> bool {
        self.arguments.name.contains('@')
    }
}

/// A volume without its momentary state.
pub(crate) fn bare(status: &VolumeStatus) -> VolumeStatus {
    let classes =
        status.classes.iter().map(|class| ClassStatus { connections: None, ..class.clone() });
    let (classes, scans) = (classes.collect(), Vec::new());
    VolumeStatus { classes, scans, relocation: None, ..status.clone() }
}

/// The volumes of a table as the control socket reports them.
pub(crate) fn reported(volumes: &[Volume]) -> Vec<VolumeStatus> {
    let of = |volume: &Volume| {
        let settings = &volume.settings;
        let extents = volume.extents.as_slice().iter().map(|extent| ExtentStatus {
            first_sector: extent.start.get(),
            sectors: extent.len.get(),
        });
        let extents: Vec<ExtentStatus> = extents.collect();
        let class =
            |(class, of): (VolumeClass, headtime_serve::volumes::ClassSettings)| ClassStatus {
                export: class.export(&volume.name),
                priority: of.priority.map(|priority| priority.to_string()),
                reserve_percent: f64::from(of.reserve.as_billionths()) / 1e7,
                limit_percent: of.limit.map(|limit| f64::from(limit.as_billionths()) / 1e7),
                burst_seconds: of.burst.map(|burst| burst.as_secs_f64()),
                weight: of.weight,
                iops_limit: of.iops_limit,
                bandwidth_limit_bytes: of.bandwidth_limit,
                deadline_seconds: of.deadline.map(|deadline| deadline.as_secs_f64()),
                connections: None,
            };
        VolumeStatus {
            name: volume.name.clone(),
            number: volume.id.0,
            size_bytes: extents.iter().map(|extent| extent.sectors).sum::<u64>() * SECTOR,
            first_sector: extents[0].first_sector,
            extents,
            read_only: settings.read_only,
            description: settings.description.clone(),
            always_served: settings.always_served,
            classes: settings.classes().map(class).collect(),
            scans: Vec::new(),
            relocation: None,
        }
    };
    volumes.iter().map(of).collect()
}

/// The volumes by address, on a drive of this number of sectors.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct World {
    pub volumes: Vec<VolumeStatus>,
    pub capacity: u64,
    /// The highest number ever assigned.
    pub highest: u32,
}

impl World {
    pub(crate) fn find(&self, name: &str) -> Option<&VolumeStatus> {
        self.volumes.iter().find(|volume| volume.name == name)
    }

    /// The end of the whole mebibytes for volumes; the copy of the table follows.
    fn end(&self) -> u64 {
        (self.capacity - AREA_BYTES / SECTOR) / MIB_SECTORS * MIB_SECTORS
    }

    /// The number of the volume that has each mebibyte of the drive, if one has.
    fn owners(&self) -> Vec<Option<u32>> {
        let mut owners = vec![None; (self.end() / MIB_SECTORS) as usize];
        for volume in &self.volumes {
            for extent in &volume.extents {
                let end = (extent.first_sector + extent.sectors).div_ceil(MIB_SECTORS);
                for owner in &mut owners[(extent.first_sector / MIB_SECTORS) as usize..end as usize]
                {
                    assert_eq!(*owner, None, "volumes overlap: {:?}", self.volumes);
                    *owner = Some(volume.number);
                }
            }
        }
        owners
    }

    /// The free extents in mebibytes: first and number, the longest first.
    fn gaps(&self) -> Vec<(u64, u64)> {
        let mut gaps: Vec<(u64, u64)> = Vec::new();
        let owners = self.owners();
        for (index, _) in owners.iter().enumerate().skip(1).filter(|(_, owner)| owner.is_none()) {
            match gaps.last_mut() {
                Some((first, count)) if *first + *count == index as u64 => *count += 1,
                _ => gaps.push((index as u64, 1)),
            }
        }
        gaps.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        gaps
    }

    /// The sectors of the longest free extent.
    pub(crate) fn longest_gap(&self) -> u64 {
        self.gaps().first().map_or(0, |(_, count)| count * MIB_SECTORS)
    }

    /// The largest possible size of a new volume, in sectors.
    pub(crate) fn largest(&self) -> u64 {
        self.gaps().iter().take(MAX_EXTENTS).map(|(_, count)| count * MIB_SECTORS).sum()
    }

    /// The largest possible size of a volume with its extents, in sectors.
    fn max_in_place(&self, volume: &VolumeStatus) -> u64 {
        let end = end(volume).next_multiple_of(MIB_SECTORS);
        let gaps = self.gaps();
        let after = gaps.iter().find(|(first, _)| first * MIB_SECTORS == end);
        volume.size_bytes / SECTOR + end - self::end(volume)
            + after.map_or(0, |(_, count)| count * MIB_SECTORS)
    }

    /// The largest possible size of a volume, in sectors.
    pub(crate) fn most(&self, volume: &VolumeStatus) -> u64 {
        let end = end(volume).next_multiple_of(MIB_SECTORS);
        let elsewhere = self.gaps().into_iter().filter(|(first, _)| first * MIB_SECTORS != end);
        let further = elsewhere.take(MAX_EXTENTS - volume.extents.len());
        self.max_in_place(volume) + further.map(|(_, count)| count * MIB_SECTORS).sum::<u64>()
    }

    /// The reservations of all exports except `but`, in percent.
    fn reserved(&self, but: &str) -> f64 {
        let classes = self
            .volumes
            .iter()
            .flat_map(|volume| &volume.classes)
            .filter(|class| class.export != but);
        classes.map(|class| class.reserve_percent).sum()
    }

    /// Checks the invariants of every table: no volumes overlap, exceed the drive, lie in the
    /// metadata, or share a name or number.
    pub(crate) fn check(&self) {
        for (index, volume) in self.volumes.iter().enumerate() {
            let mut sectors = 0;
            for (nth, extent) in volume.extents.iter().enumerate() {
                let end = extent.first_sector + extent.sectors;
                assert!(
                    extent.first_sector % MIB_SECTORS == 0
                        && extent.first_sector * SECTOR >= AREA_BYTES,
                    "{volume:?} begins where none may"
                );
                assert!(
                    end <= self.end() && extent.sectors > 0,
                    "{volume:?} leaves the drive of {} sectors",
                    self.capacity
                );
                assert!(
                    extent.sectors % MIB_SECTORS == 0 || nth + 1 == volume.extents.len(),
                    "{volume:?} has a block in two extents"
                );
                sectors += extent.sectors;
            }
            assert!(
                volume.extents.len() <= MAX_EXTENTS
                    && sectors * SECTOR == volume.size_bytes
                    && volume.first_sector == volume.extents[0].first_sector,
                "{volume:?}"
            );
            assert!(
                volume.number <= self.highest,
                "{volume:?}: {} is the highest number that was given",
                self.highest
            );
            for other in &self.volumes[index + 1..] {
                assert!(
                    other.name != volume.name && other.number != volume.number,
                    "two volumes are one: {volume:?} and {other:?}"
                );
                assert!(
                    volume.first_sector < other.first_sector,
                    "two volumes are out of order: {volume:?} and {other:?}"
                );
            }
        }
        self.owners();
    }

    /// A part of the error message that a command must get; `None` if it must succeed.
    pub(crate) fn refusal(&self, order: &Order, in_use: bool) -> Option<&'static str> {
        let volume = self.find(order.volume());
        let sectors = order.size(volume).map(|bytes| bytes / SECTOR);
        let reserve = order.setting("reserve").map_or(0.0, |text| {
            text.trim_end_matches('%').parse().expect("shares are written in percent")
        });
        let too_much = self.reserved(&order.arguments.name) + reserve > 100.0;
        match (order.verb, volume) {
            ("volume.add", Some(_)) if !order.is_of_class() => Some("on the drive already"),
            ("volume.add", None)
                if !order.is_of_class()
                    && sectors.is_some_and(|sectors| sectors > self.largest()) =>
            {
                Some("does not fit")
            }
            ("volume.add", None) if !order.is_of_class() => {
                too_much.then_some("cannot be reserved")
            }
            (_, None) => Some("no volume"),
            ("volume.remove", Some(volume)) if order.is_of_class() => {
                let there = volume.classes.iter().any(|class| class.export == order.arguments.name);
                if !there {
                    Some("no class")
                } else {
                    (in_use && !order.arguments.force).then_some("in use")
                }
            }
            ("volume.remove", Some(_)) => (in_use && !order.arguments.force).then_some("in use"),
            (_, Some(volume)) => match sectors {
                Some(sectors) if sectors > self.most(volume) => Some("cannot grow"),
                Some(sectors)
                    if sectors * SECTOR < volume.size_bytes && !order.arguments.cut_data =>
                {
                    Some("would be lost")
                }
                _ => too_much.then_some("cannot be reserved"),
            },
        }
    }

    /// The volumes after a successful command with this `answer`: requested values as requested,
    /// others as before, and those that the server chooses as in the answer.
    pub(crate) fn after(&self, order: &Order, answer: &VolumeAnswer) -> Self {
        let mut after = self.clone();
        let at = after.volumes.iter().position(|volume| volume.name == order.volume());
        let Some(now) = answer.volumes.first().map(bare) else {
            assert!(
                order.verb == "volume.remove" && !order.is_of_class(),
                "{order:?} is answered with no volume: {answer:?}"
            );
            after.volumes.remove(at.expect("only what is there can be removed"));
            return after;
        };
        let requested = match at {
            None => {
                assert_eq!(
                    now.extents.len() > 1,
                    now.size_bytes > self.longest_gap() * SECTOR,
                    "{order:?} has as few extents as possible: {now:?}"
                );
                assert!(
                    now.number > self.highest,
                    "{order:?}: the number {} was another volume's",
                    now.number
                );
                after.highest = now.number;
                let place = after
                    .volumes
                    .iter()
                    .position(|other| other.first_sector > now.first_sector)
                    .unwrap_or(after.volumes.len());
                after.volumes.insert(place, now.clone());
                let usual = ClassStatus {
                    export: now.name.clone(),
                    connections: None,
                    ..nothing_promised()
                };
                VolumeStatus {
                    name: order.arguments.name.clone(),
                    read_only: false,
                    description: String::new(),
                    always_served: true,
                    classes: [usual]
                        .into_iter()
                        .chain(now.classes.iter().skip(1).cloned())
                        .collect(),
                    scans: Vec::new(),
                    ..now.clone()
                }
            }
            Some(at) => std::mem::replace(&mut after.volumes[at], now.clone()),
        };
        let requested = self.with_settings(requested, order, &now);
        assert_eq!(now, requested, "{order:?} does something else than it says");
        after
    }

    /// The volumes after a relocation with this answer: `len` bytes of a volume from `from` on are
    /// one extent, where nothing was, and nothing else moves.
    pub(crate) fn after_relocation(&self, answer: &VolumeAnswer, from: u64, len: u64) -> Self {
        let now = bare(&answer.volumes[0]);
        let before = self.find(&now.name).expect("only what is there is relocated");
        for offset in (0..now.size_bytes).step_by(ALIGNMENT_BYTES as usize) {
            let moved = place(&now, from) + offset.wrapping_sub(from) / SECTOR;
            let is_moved = (from..from + len).contains(&offset);
            let expected = if is_moved { moved } else { place(before, offset) };
            assert_eq!(place(&now, offset), expected, "{before:?} becomes {now:?}");
        }
        let owners = self.owners();
        let first = (place(&now, from) / MIB_SECTORS) as usize;
        let taken = &owners[first..first + len.div_ceil(ALIGNMENT_BYTES) as usize];
        assert!(taken.iter().all(Option::is_none), "{now:?} moves onto {taken:?}");
        let (extents, first_sector) = (now.extents.clone(), now.extents[0].first_sector);
        let expected = VolumeStatus { extents, first_sector, ..before.clone() };
        assert_eq!(now, expected, "a relocation changes places only");
        let mut after = self.clone();
        after.volumes.retain(|volume| volume.name != now.name);
        after.volumes.push(now);
        after.volumes.sort_by_key(|volume| volume.first_sector);
        after
    }

    /// A volume after a command. The defaults of a new class come from `now`.
    fn with_settings(
        &self,
        mut volume: VolumeStatus,
        order: &Order,
        now: &VolumeStatus,
    ) -> VolumeStatus {
        let export = &order.arguments.name;
        if order.is_of_class() {
            volume.classes.retain(|class| class.export != *export);
            if order.verb != "volume.remove" {
                let place = now
                    .classes
                    .iter()
                    .position(|class| class.export == *export)
                    .expect("a class that was made is there");
                volume.classes.insert(place, now.classes[place].clone());
            }
        }
        if let Some(names) = order.setting("classes") {
            let kept = |class: &ClassStatus| {
                class.export == volume.name
                    || names
                        .split('+')
                        .any(|name| class.export == format!("{}@{name}", volume.name))
            };
            let had = std::mem::take(&mut volume.classes);
            let old = |class: &ClassStatus| {
                had.iter().find(|had| had.export == class.export).unwrap_or(class).clone()
            };
            volume.classes = now.classes.iter().filter(|class| kept(class)).map(old).collect();
        }
        for (key, text) in &order.arguments.settings {
            let class = volume.classes.iter_mut().find(|class| class.export == *export);
            let number =
                text.trim_end_matches(|character: char| !character.is_ascii_digit()).parse::<f64>();
            match (key.as_str(), class) {
                ("size", _) => {
                    let before = volume.clone();
                    volume.size_bytes = order.size(Some(&before)).expect("it is there");
                    volume.extents.clone_from(&now.extents);
                    let kept = before.size_bytes.min(volume.size_bytes) / SECTOR;
                    assert_eq!(
                        first(&before.extents, kept),
                        first(&now.extents, kept),
                        "{order:?} moves what it keeps"
                    );
                    assert!(
                        now.extents.len() <= before.extents.len()
                            || volume.size_bytes > self.max_in_place(&before) * SECTOR,
                        "{order:?} could grow in place: {before:?} to {now:?}"
                    );
                }
                ("description", _) => volume.description.clone_from(text),
                ("read_only", _) => volume.read_only = text == "true",
                ("classes", _) => {}
                ("reserve", Some(class)) => class.reserve_percent = number.expect("percent"),
                ("deadline", Some(class)) => {
                    class.deadline_seconds = number.ok().map(|milliseconds| milliseconds / 1e3)
                }
                ("iops_limit", Some(class)) => {
                    class.iops_limit = number.ok().map(|limit| limit as u32)
                }
                ("weight", Some(class)) => class.weight = number.ok().map(|weight| weight as u16),
                other => panic!("the model does not know {other:?}"),
            }
        }
        volume
    }
}

fn nothing_promised() -> ClassStatus {
    ClassStatus {
        export: String::new(),
        priority: None,
        reserve_percent: 0.0,
        limit_percent: None,
        burst_seconds: None,
        weight: None,
        iops_limit: None,
        bandwidth_limit_bytes: None,
        deadline_seconds: None,
        connections: None,
    }
}

/// The end of a volume's last extent.
fn end(volume: &VolumeStatus) -> u64 {
    volume.extents.last().map_or(0, |extent| extent.first_sector + extent.sectors)
}

/// The first `sectors` sectors of these extents.
fn first(extents: &[ExtentStatus], mut sectors: u64) -> Vec<ExtentStatus> {
    let mut first = Vec::new();
    for extent in extents {
        let part = ExtentStatus { sectors: extent.sectors.min(sectors), ..*extent };
        first.extend((part.sectors > 0).then_some(part));
        sectors -= part.sectors;
    }
    first
}

/// The sector of the drive at this offset of a volume; after its end, the sector that would follow.
pub(crate) fn place(volume: &VolumeStatus, offset_bytes: u64) -> u64 {
    let mut offset = offset_bytes / SECTOR;
    for extent in &volume.extents {
        if offset < extent.sectors {
            return extent.first_sector + offset;
        }
        offset -= extent.sectors;
    }
    end(volume) + offset
}

/// The possible volumes and the times of their changes.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Vec<Entry>);

#[derive(Debug)]
struct Entry {
    world: World,
    begun: usize,
    /// The time at which it was known.
    known: Option<usize>,
}

impl Ledger {
    pub(crate) fn begin(&mut self, world: &World, begun: usize) {
        self.0.push(Entry { world: world.clone(), begun, known: None });
    }

    /// The last entry took effect.
    pub(crate) fn know(&mut self, moment: usize) {
        self.0.last_mut().expect("something was begun").known = Some(moment);
    }

    /// The times of each command and its answer.
    pub(crate) fn middles(&self) -> Vec<(usize, Option<usize>)> {
        self.0.iter().map(|entry| (entry.begun, entry.known)).collect()
    }

    /// The entries possible at `moment`: the last one known by then and all later ones.
    pub(crate) fn legal(&self, moment: usize) -> Vec<&World> {
        let last =
            self.0.iter().rposition(|entry| entry.known.is_some_and(|known| known <= moment));
        let later = &self.0[last.expect("it begins with what was known at the start")..];
        later.iter().filter(|entry| entry.begun <= moment).map(|entry| &entry.world).collect()
    }

    /// The possible entry with these volumes at `moment`; fails if there is none.
    pub(crate) fn found(&self, moment: usize, volumes: &[VolumeStatus]) -> World {
        let legal = self.legal(moment);
        let Some(found) = legal.iter().find(|world| world.volumes == volumes) else {
            panic!(
                "at moment {moment} there are the volumes {volumes:#?}\nand there may be {legal:#?}"
            );
        };
        (*found).clone()
    }
}
