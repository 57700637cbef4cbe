//! One run of a server: commands over its control socket and clients at its exports, both recorded
//! in the model, until it is killed or its drive loses power.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::time::Duration;

use headtime_nbd::client::{ClientEvent, Completion, Cookie, RequestError};
use headtime_nbd::{Errno, NbdCommand};
use headtime_serve::control::{
    CancelRelocation, ControlClient, ControlError, ErrorReplyKind, RelocateArguments, VolumeAnswer,
    VolumeArguments, VolumeStatus,
};
use headtime_serve::volumes::RelocationState;
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use tokio::net::UnixStream;

use crate::blocks::{BLOCK, Blocks, SECTORS};
use crate::common::Spawned;
use crate::common::client::Client;
use crate::draw::{draw, draw_relocation};
use crate::model::{Ledger, Order, SECTOR, World, bare, place};

/// A running server and everything known about it.
pub(crate) struct Life {
    pub world: World,
    pub ledger: Ledger,
    pub blocks: Blocks,
    pub counts: Counts,
    /// The commands so far, to explain a failure.
    pub story: Vec<String>,
    /// Returns the current moment.
    clock: Box<dyn Fn() -> usize>,
    /// Its drive fails now and then.
    faulty: bool,
    /// Answered writes survive without a flush.
    outlives_answers: bool,
    socket: PathBuf,
    control: Option<ControlClient>,
    clients: BTreeMap<String, Opened>,
    /// Exports that had a client; the server may not have noticed its disconnect yet.
    left: HashSet<String>,
}

/// Counters that show how much a test exercised.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub carried_out: usize,
    pub refused: usize,
    pub failed: usize,
    pub unanswered: usize,
    pub relocated: usize,
    pub written: usize,
}

/// The identity of a run.
pub(crate) struct Terms {
    pub clock: Box<dyn Fn() -> usize>,
    pub faulty: bool,
    pub outlives_answers: bool,
    pub socket: PathBuf,
    pub control: PathBuf,
}

/// An open export, as its client saw it.
struct Opened {
    client: Client<UnixStream>,
    number: u32,
    size_bytes: u64,
    writable: bool,
}

/// Writes in flight: request id to the write's number and its offset in the volume.
type UnderWay = HashMap<Cookie, (usize, u64)>;

/// The server is gone.
#[derive(Debug)]
pub(crate) struct Gone;

impl Life {
    /// A server that has just started, with the last entry of `ledger` or a later one.
    pub(crate) async fn begin(terms: Terms, ledger: Ledger, world: World, blocks: Blocks) -> Self {
        let control = ControlClient::connect(&terms.control).expect("the server takes orders");
        let Terms { clock, faulty, outlives_answers, socket, .. } = terms;
        let (clients, left) = (BTreeMap::new(), HashSet::new());
        let (counts, story) = (Counts::default(), Vec::new());
        Self {
            world,
            ledger,
            blocks,
            counts,
            story,
            clock,
            faulty,
            outlives_answers,
            socket,
            control: Some(control),
            clients,
            left,
        }
    }

    /// The volumes that the server lists.
    pub(crate) async fn list(&mut self) -> Result<Vec<VolumeStatus>, Gone> {
        let answer = self.ask("volume.list", VolumeArguments::default()).await?;
        Ok(answer.expect("a list is always had").volumes.iter().map(bare).collect())
    }

    /// Checks that every export of every volume exists with the right size, and that every block
    /// has a possible content.
    pub(crate) async fn look_at_everything(&mut self) {
        for volume in self.world.volumes.clone() {
            for class in &volume.classes {
                self.open(&volume, &class.export).await;
                let places = grid(volume.size_bytes);
                if self.read(&class.export, &places).await.is_err() {
                    assert!(self.faulty, "{} cannot be read", class.export);
                }
            }
        }
    }

    /// Does a few random things.
    pub(crate) async fn step(&mut self, rng: &mut ChaCha8Rng) -> Result<(), Gone> {
        match rng.random_range(0..12) {
            10..=11 => self.relocate(None, rng).await,
            0..=5 => {
                let order = draw(&self.world, rng);
                let writer = if rng.random_bool(0.6) { self.some_export(rng).await } else { None };
                self.order(order, writer, None, rng).await
            }
            6..=7 => self.write_alone(rng).await,
            8 => self.flush(rng).await,
            _ => {
                let Some(export) = self.some_export(rng).await else { return Ok(()) };
                let places = self.places(&export, 6, rng);
                self.read(&export, &places).await
            }
        }
    }

    /// Sends a command while a `writer` writes, if there is one; kills the server this long after
    /// the command if it is `mortal`.
    pub(crate) async fn order(
        &mut self,
        order: Order,
        writer: Option<String>,
        mortal: Option<(Spawned, Duration)>,
        rng: &mut ChaCha8Rng,
    ) -> Result<(), Gone> {
        let expected = self.world.refusal(&order, self.is_in_use(&order));
        let dry = VolumeArguments { dry_run: true, ..order.arguments.clone() };
        let would = match (self.ask(order.verb, dry).await?, expected) {
            (Ok(answer), None) => answer,
            (Ok(answer), Some(expected)) => panic!(
                "{order:?} would be carried out, and must be refused with `{expected}`: {answer:?}"
            ),
            (Err(said), Some(expected)) => {
                assert!(
                    said.contains(expected),
                    "{order:?} is refused with `{said}`, and not with `{expected}`"
                );
                return self.refused(order, &said).await;
            }
            (Err(said), None) => {
                let lately = said.contains("in use")
                    && self.left.iter().any(|export| of_volume(export, order.volume()));
                assert!(lately, "{order:?} makes sense and is refused: {said}");
                return Ok(());
            }
        };
        let after = self.world.after(&order, &would);
        after.check();
        let goes = order.verb == "volume.remove" && !order.is_of_class();
        let under_way = match &writer {
            Some(export) => self.write(export, &after, rng).await,
            None => UnderWay::new(),
        };
        self.ledger.begin(&after, (self.clock)());
        let killer = mortal.map(|(server, patience)| {
            std::thread::spawn(move || {
                std::thread::sleep(patience);
                server.kill_9();
            })
        });
        let opened = writer.as_ref().and_then(|export| self.clients.remove(export));
        let control = self.control.take().expect("it is given back");
        let asking = ask(control, order.verb, order.arguments.clone());
        let (answer, opened) = match opened {
            Some(mut opened) => {
                let worlds = [&self.world, &after];
                let writing = finish(
                    &mut opened,
                    under_way,
                    &worlds,
                    &mut self.blocks,
                    &self.clock,
                    self.faulty,
                    self.outlives_answers,
                );
                let (answer, alive) = tokio::join!(asking, writing);
                (answer, alive.then_some(opened))
            }
            None => (asking.await, None),
        };
        if let (Some(export), Some(opened)) = (writer, opened) {
            self.clients.insert(export, opened);
        }
        let done = match answer {
            Ok((control, answer)) => {
                self.control = Some(control);
                answer
            }
            Err(Gone) => {
                killer
                    .expect("nobody kills the server, and it is gone")
                    .join()
                    .expect("killing does not panic");
                self.counts.unanswered += 1;
                self.story.push(format!("unanswered: {order:?}"));
                return Err(Gone);
            }
        };
        match done {
            Ok(answer) => {
                assert_eq!(
                    answer.volumes.iter().map(bare).collect::<Vec<_>>(),
                    would.volumes.iter().map(bare).collect::<Vec<_>>(),
                    "{order:?}"
                );
                self.ledger.know((self.clock)());
                self.story.push(format!("moment {}: done: {order:?}", (self.clock)()));
                self.counts.carried_out += 1;
                self.world = after;
            }
            Err(said) => {
                assert!(self.faulty, "{order:?} would be carried out, and is not: {said}");
                self.blocks.forsake();
                self.story.push(format!("moment {}: failed: {order:?}: {said}", (self.clock)()));
                self.counts.failed += 1;
            }
        }
        if goes {
            // In either case its clients were disconnected.
            self.drop_clients(|export| of_volume(export, order.volume()));
        } else if order.is_of_class() && order.verb == "volume.remove" {
            self.drop_clients(|export| *export == order.arguments.name);
        }
        let listed = self.list().await;
        if let Some(killer) = killer {
            killer.join().expect("killing does not panic");
            return Err(Gone);
        }
        assert_eq!(listed?, self.world.volumes, "after {order:?}");
        Ok(())
    }

    /// Relocates a volume or a part of one, and waits for the end of that; cancels it now and then.
    /// Kills the server this long after the command if it is `mortal`.
    pub(crate) async fn relocate(
        &mut self,
        mortal: Option<(Spawned, Duration)>,
        rng: &mut ChaCha8Rng,
    ) -> Result<(), Gone> {
        let (order, from, len) = draw_relocation(&self.world, rng);
        let dry = RelocateArguments { dry_run: true, ..order.clone() };
        let would = match self.ask("volume.relocate", dry).await? {
            Ok(answer) => answer,
            Err(said) => {
                let too_long = len > self.world.longest_gap() * SECTOR;
                let reasons = ["no free extent closer", "are not all free", "would have"];
                let expected = said.contains("needs one free extent") == too_long
                    && (too_long || reasons.iter().any(|reason| said.contains(reason)));
                assert!(expected, "{order:?}: {said}");
                let again = self.ask("volume.relocate", order.clone()).await?;
                assert_eq!(again.err().as_ref(), Some(&said), "{order:?}");
                self.counts.refused += 1;
                return Ok(());
            }
        };
        let after = self.world.after_relocation(&would, from, len);
        after.check();
        let before = self.world.find(&order.name).expect("it is there").clone();
        let now = after.find(&order.name).expect("it is there").clone();
        self.drop_clients(|export| of_volume(export, &order.name));
        self.open(&before, &order.name).await;
        // Where a client reads later, and where anything is known of the source or the destination.
        let grid = grid(before.size_bytes);
        let block = |volume: &VolumeStatus, offset: u64| place(volume, offset) / SECTORS;
        let whole = len / BLOCK as u64 * BLOCK as u64;
        let moved = (from..from + whole).step_by(BLOCK);
        let known: Vec<u64> = moved
            .filter(|offset| {
                grid.contains(offset)
                    || self.blocks.is_written(block(&before, *offset))
                    || self.blocks.is_written(block(&now, *offset))
            })
            .collect();
        let mut copies = Vec::new();
        for offset in known {
            let opened = self.clients.get_mut(&order.name).expect("it was opened");
            let content = opened.client.read(offset, BLOCK as u32).await.expect("it is readable");
            copies.push((block(&now, offset), content));
        }
        let begun = (self.clock)();
        let begin = |(block, content)| self.blocks.begin_copy(block, content, begun);
        let copies: Vec<usize> = copies.into_iter().map(begin).collect();
        self.ledger.begin(&after, begun);
        let killer = mortal.map(|(server, patience)| {
            std::thread::spawn(move || {
                std::thread::sleep(patience);
                server.kill_9();
            })
        });
        let ended = self.relocated(&order, rng).await;
        if let Some(killer) = killer {
            killer.join().expect("killing does not panic");
            self.counts.unanswered += 1;
            self.story.push(format!("killed during: {order:?}"));
            return Err(Gone);
        }
        match ended? {
            Ok(RelocationState::Complete) => {
                self.ledger.know((self.clock)());
                let moment = (self.clock)();
                copies.into_iter().for_each(|copy| self.blocks.acknowledge(copy, moment, true));
                self.counts.relocated += 1;
                self.world = after;
                self.story.push(format!("moment {moment}: done: {order:?}"));
            }
            Ok(RelocationState::Cancelled) => {
                self.story.push(format!("moment {}: cancelled: {order:?}", (self.clock)()));
            }
            failed => {
                assert!(self.faulty, "{order:?} fails: {failed:?}");
                self.blocks.forsake();
                self.counts.failed += 1;
                self.story.push(format!("moment {}: {failed:?}: {order:?}", (self.clock)()));
            }
        }
        assert_eq!(self.list().await?, self.world.volumes, "after {order:?}");
        Ok(())
    }

    /// Carries a relocation out, and returns its last state, or the reason why it did not begin.
    async fn relocated(
        &mut self,
        order: &RelocateArguments,
        rng: &mut ChaCha8Rng,
    ) -> Result<Result<RelocationState, String>, Gone> {
        if let Err(said) = self.ask("volume.relocate", order.clone()).await? {
            return Ok(Err(said));
        }
        let mut cancels = rng.random_bool(0.1);
        loop {
            let named = VolumeArguments { name: order.name.clone(), ..VolumeArguments::default() };
            let shown = self.ask("volume.show", named).await?.expect("it is there");
            let status = shown.volumes[0].relocation.clone().expect("it was started");
            if status.state.is_over() {
                return Ok(Ok(status.state));
            }
            // A drive with errors may have lost the copy, which begins again after seconds.
            cancels |= self.faulty && status.state == RelocationState::Waiting;
            if std::mem::take(&mut cancels) {
                let cancel = CancelRelocation { name: order.name.clone() };
                // It may be over by now.
                let _ = self.ask("volume.relocate_cancel", cancel).await?;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn refused(&mut self, order: Order, said: &str) -> Result<(), Gone> {
        let again = self.ask(order.verb, order.arguments.clone()).await?;
        assert_eq!(again.err().as_deref(), Some(said), "{order:?}: a dry run says something else");
        assert_eq!(self.list().await?, self.world.volumes, "after {order:?}, which was refused");
        self.counts.refused += 1;
        Ok(())
    }

    async fn write_alone(&mut self, rng: &mut ChaCha8Rng) -> Result<(), Gone> {
        let Some(export) = self.some_export(rng).await else { return Ok(()) };
        let world = self.world.clone();
        let under_way = self.write(&export, &world, rng).await;
        let Some(mut opened) = self.clients.remove(&export) else { return Ok(()) };
        let alive = finish(
            &mut opened,
            under_way,
            &[&self.world],
            &mut self.blocks,
            &self.clock,
            self.faulty,
            self.outlives_answers,
        )
        .await;
        assert!(alive, "the connection to {export} is over, and nobody ended it");
        self.clients.insert(export, opened);
        Ok(())
    }

    /// Sends writes to a few blocks of an export while the volumes become those of `after`.
    async fn write(&mut self, export: &str, after: &World, rng: &mut ChaCha8Rng) -> UnderWay {
        let mut places = self.places(export, 8, rng);
        places.sort_unstable();
        places.dedup();
        let (world, clock) = (&self.world, &self.clock);
        let mut under_way = UnderWay::new();
        let Some(opened) = self.clients.get_mut(export).filter(|opened| opened.writable) else {
            return under_way;
        };
        let of = |world: &World| {
            world.volumes.iter().find(|volume| volume.number == opened.number).cloned()
        };
        let Some(now) = of(world) else { return under_way };
        let then = of(after).unwrap_or_else(|| now.clone());
        for offset in places {
            // What a volume keeps stays where it is; what it gains is where it is afterwards.
            let volume = if offset < now.size_bytes { &now } else { &then };
            let (number, payload) =
                self.blocks.begin(place(volume, offset) / SECTORS, volume.number, clock());
            let id = opened.client.submit(NbdCommand::Write {
                offset,
                payload,
                fua: offset % (3 * BLOCK as u64) == 0,
            });
            under_way.insert(id, (number, offset));
        }
        opened.client.send().await;
        self.counts.written += under_way.len();
        under_way
    }

    async fn flush(&mut self, rng: &mut ChaCha8Rng) -> Result<(), Gone> {
        let Some(export) = self.some_export(rng).await else { return Ok(()) };
        let opened = self.clients.get_mut(&export).expect("it was opened");
        match opened.client.request(NbdCommand::Flush).await {
            Ok(_) => self.blocks.flushed(opened.number, (self.clock)()),
            Err(error) => {
                assert!(self.faulty, "a flush of {export}: {error}");
                self.blocks.forsake();
            }
        }
        Ok(())
    }

    /// Reads blocks and compares them with the model.
    async fn read(&mut self, export: &str, places: &[u64]) -> Result<(), Gone> {
        let Some(opened) = self.clients.get_mut(export) else { return Ok(()) };
        let Some(volume) = self.world.volumes.iter().find(|volume| volume.number == opened.number)
        else {
            return Ok(());
        };
        for offset in places.iter().filter(|offset| **offset + BLOCK as u64 <= volume.size_bytes) {
            let content = opened
                .client
                .read(*offset, BLOCK as u32)
                .await
                .unwrap_or_else(|error| panic!("{export} at {offset}: {error}"));
            self.blocks.check_now(place(volume, *offset) / SECTORS, &content);
        }
        Ok(())
    }

    /// Random blocks of an export as its client knows it, including blocks that it lost.
    fn places(&self, export: &str, most: usize, rng: &mut ChaCha8Rng) -> Vec<u64> {
        let all = self.clients.get(export).map_or_else(Vec::new, |opened| grid(opened.size_bytes));
        let few = if all.is_empty() { 0 } else { rng.random_range(1..=most) };
        (0..few).map(|_| all[rng.random_range(0..all.len())]).collect()
    }

    /// Opens an export, or opens it again.
    pub(crate) async fn some_export(&mut self, rng: &mut ChaCha8Rng) -> Option<String> {
        let volume = self.world.volumes[rng.random_range(0..self.world.volumes.len())].clone();
        let export = volume.classes[rng.random_range(0..volume.classes.len())].export.clone();
        if rng.random_bool(0.3) {
            self.drop_clients(|other| *other == export);
        }
        if !self.clients.contains_key(&export) {
            self.open(&volume, &export).await;
        }
        Some(export)
    }

    async fn open(&mut self, volume: &VolumeStatus, export: &str) {
        let client = Client::open(&self.socket, export)
            .await
            .unwrap_or_else(|reason| panic!("{export} is no export: {reason}"));
        let reported = client.machine.session().expect("it is open").export.clone();
        assert_eq!(reported.size_bytes, volume.size_bytes, "{export} is {volume:?}");
        let opened = Opened {
            client,
            number: volume.number,
            size_bytes: volume.size_bytes,
            writable: !volume.read_only,
        };
        self.clients.insert(export.to_owned(), opened);
    }

    fn drop_clients(&mut self, go: impl Fn(&String) -> bool) {
        let gone: Vec<String> = self.clients.keys().filter(|export| go(export)).cloned().collect();
        gone.iter().for_each(|export| drop(self.clients.remove(export)));
        self.left.extend(gone);
    }

    /// Disconnects all clients.
    pub(crate) fn leave(&mut self) {
        self.drop_clients(|_| true);
    }

    fn is_in_use(&self, order: &Order) -> bool {
        let name = &order.arguments.name;
        self.clients.keys().any(|export| {
            if order.is_of_class() { export == name } else { of_volume(export, name) }
        })
    }

    /// Sends a verb to the server; returns the answer or the error message.
    async fn ask(
        &mut self,
        verb: &'static str,
        arguments: impl Serialize + Send + 'static,
    ) -> Result<Result<VolumeAnswer, String>, Gone> {
        let control = self.control.take().ok_or(Gone)?;
        let (control, answer) = ask(control, verb, arguments).await?;
        self.control = Some(control);
        Ok(answer)
    }
}

async fn ask(
    mut control: ControlClient,
    verb: &'static str,
    arguments: impl Serialize + Send + 'static,
) -> Result<(ControlClient, Result<VolumeAnswer, String>), Gone> {
    let requested = tokio::task::spawn_blocking(move || {
        let answer = control.ask_for(verb, &arguments);
        (control, answer)
    });
    let (control, answer) = requested.await.expect("asking does not panic");
    match answer {
        Ok(answer) => Ok((control, Ok(answer))),
        Err(ControlError::ErrorReply(refused)) => {
            assert!(
                matches!(refused.kind, ErrorReplyKind::BadRequest | ErrorReplyKind::Failed),
                "{refused:?}"
            );
            Ok((control, Err(refused.message)))
        }
        Err(ControlError::Gone { .. }) => Err(Gone),
        Err(other) => panic!("{verb}: {other}"),
    }
}

/// Waits for writes and records them in the model; returns whether the connection survives. The
/// possible results depend on whether a write was admitted before or after a command.
async fn finish(
    opened: &mut Opened,
    mut under_way: UnderWay,
    worlds: &[&World],
    blocks: &mut Blocks,
    clock: &dyn Fn() -> usize,
    faulty: bool,
    outlives_answers: bool,
) -> bool {
    let mut errors = false;
    while !under_way.is_empty() {
        let Completion { id, result } = match opened.client.event().await {
            ClientEvent::Completed(completion) => completion,
            ClientEvent::Closed(_) => return false,
            other => panic!("{other:?}"),
        };
        let (number, offset) = under_way.remove(&id).expect("it was submitted");
        let within = |world: &&World| {
            let volume = world.volumes.iter().find(|volume| volume.number == opened.number);
            volume.is_some_and(|volume| {
                !volume.read_only && offset + BLOCK as u64 <= volume.size_bytes
            })
        };
        match result {
            Ok(_) => {
                assert!(
                    worlds.iter().any(within),
                    "a write at {offset} of volume {} was let in, in {worlds:?}",
                    opened.number
                );
                let fua = offset % (3 * BLOCK as u64) == 0;
                blocks.acknowledge(number, clock(), fua || outlives_answers);
            }
            Err(RequestError::Server { errno: Errno::Perm | Errno::NoSpace, text, .. }) => {
                assert!(
                    !worlds.iter().all(within),
                    "a write at {offset} of volume {} was refused: {text}",
                    opened.number
                );
                blocks.refuse(number);
            }
            Err(RequestError::Server { errno: Errno::Io, .. }) if faulty => errors = true,
            Err(
                RequestError::Server { errno: Errno::Shutdown, .. } | RequestError::ConnectionLost,
            ) if worlds.len() > 1 => {}
            Err(error) => panic!("a write at {offset} of volume {}: {error}", opened.number),
        }
    }
    if errors {
        blocks.forsake();
    }
    true
}

/// The blocks of a volume of this size that are read and written: the ends and the middle of each
/// mebibyte, and the last one.
pub(crate) fn grid(size_bytes: u64) -> Vec<u64> {
    const BLOCK_BYTES: u64 = BLOCK as u64;
    let last = (size_bytes / BLOCK_BYTES).checked_sub(1).map(|block| block * BLOCK_BYTES);
    let in_each = [0, BLOCK_BYTES, 512 << 10, (1 << 20) - BLOCK_BYTES];
    let starts = (0..size_bytes.div_ceil(1 << 20)).map(|mebibyte| mebibyte << 20);
    let places = starts
        .flat_map(|start| in_each.map(|offset| start + offset))
        .filter(|offset| offset + BLOCK_BYTES <= size_bytes);
    let mut all: Vec<u64> = places.chain(last).collect();
    all.dedup();
    all
}

/// Returns whether an export belongs to a volume.
fn of_volume(export: &str, volume: &str) -> bool {
    export.split('@').next() == Some(volume)
}
