//! Clients that send arbitrary bytes, beside honest ones.

use proptest::prelude::*;

use super::*;

/// The input of a hostile client after a handshake or in place of one.
fn garbage() -> impl Strategy<Value = Vec<u8>> {
    let flags = Just(vec![0, 0, 0, 3]);
    let option = (0_u32..12, any::<u32>(), proptest::collection::vec(any::<u8>(), 0..64)).prop_map(
        |(option, length, data)| {
            let length = if length % 2 == 0 { data.len() as u32 } else { length };
            [&b"IHAVEOPT"[..], &option.to_be_bytes(), &length.to_be_bytes(), &data].concat()
        },
    );
    let open = Just([&b"IHAVEOPT\0\0\0\x07\0\0\0\x07"[..], b"\0\0\0\x01a\0\0"].concat());
    let request = (0_u16..9, any::<u16>(), 0_u64..1 << 23, any::<u32>()).prop_map(
        |(kind, flags, offset, length)| {
            let flags = flags & 0x1f;
            [
                &0x2560_9513_u32.to_be_bytes()[..],
                &flags.to_be_bytes(),
                &kind.to_be_bytes(),
                &[7; 8],
                &offset.to_be_bytes(),
                &length.to_be_bytes(),
            ]
            .concat()
        },
    );
    let noise = proptest::collection::vec(any::<u8>(), 0..300);
    let part = prop_oneof![3 => option, 2 => open, 4 => request, 1 => noise];
    (flags, proptest::collection::vec(part, 0..12), any::<bool>()).prop_map(
        |(flags, parts, polite)| {
            let start = if polite { flags } else { Vec::new() };
            start.into_iter().chain(parts.into_iter().flatten()).collect()
        },
    )
}

/// One step of an honest client, on its own part of volume b.
#[derive(Clone, Debug)]
enum Step {
    Write { block: u64, blocks: u64, seed: u8 },
    Read { block: u64, blocks: u64 },
    Zero { block: u64, blocks: u64 },
    Flush,
    Cache,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let place = || (0_u64..48, 1_u64..16);
    let step = prop_oneof![
        3 => (place(), any::<u8>())
            .prop_map(|((block, blocks), seed)| Step::Write { block, blocks, seed }),
        3 => place().prop_map(|(block, blocks)| Step::Read { block, blocks }),
        1 => place().prop_map(|(block, blocks)| Step::Zero { block, blocks }),
        1 => Just(Step::Flush),
        1 => Just(Step::Cache),
    ];
    proptest::collection::vec(step, 1..25)
}

const BLOCK: u64 = 32 << 10;
const PART: u64 = 64 * BLOCK;

/// Carries out `steps` and checks every byte that is read.
async fn behave(mut client: Client<UnixStream>, part: u64, steps: Vec<Step>) {
    let mut model: BTreeMap<u64, Bytes> = BTreeMap::new();
    let zeroes = Bytes::from(vec![0; BLOCK as usize]);
    for step in steps {
        match step {
            Step::Write { block, blocks, seed } => {
                let payload = pattern(seed, (blocks * BLOCK) as usize);
                for index in 0..blocks {
                    let start = (index * BLOCK) as usize;
                    model.insert(block + index, payload.slice(start..start + BLOCK as usize));
                }
                client.write(part + block * BLOCK, payload).await.unwrap();
            }
            Step::Read { block, blocks } => {
                let bytes =
                    client.read(part + block * BLOCK, (blocks * BLOCK) as u32).await.unwrap();
                for (index, got) in bytes.chunks(BLOCK as usize).enumerate() {
                    let expected = model.get(&(block + index as u64)).unwrap_or(&zeroes);
                    assert!(
                        got == expected,
                        "block {} of the part at {part} is not what was written",
                        block + index as u64
                    );
                }
            }
            Step::Zero { block, blocks } => {
                (block..block + blocks).for_each(|index| drop(model.remove(&index)));
                let command = NbdCommand::WriteZeroes {
                    offset: part + block * BLOCK,
                    length: (blocks * BLOCK) as u32,
                    fua: true,
                    no_hole: false,
                    fast: false,
                };
                client.request(command).await.unwrap();
            }
            Step::Flush => drop(client.request(NbdCommand::Flush).await.unwrap()),
            Step::Cache => drop(
                client
                    .request(NbdCommand::Cache { offset: part, length: PART as u32 })
                    .await
                    .unwrap(),
            ),
        }
    }
    client.leave().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Honest clients with checked data beside hostile ones, on a disk that completes in random
    /// order, with little memory and few permits.
    #[test]
    fn whatever_hostile_clients_send_honest_ones_are_served_and_everything_is_given_back(
        honest in proptest::collection::vec(steps(), 1..4),
        hostile in proptest::collection::vec((garbage(), any::<bool>()), 0..6),
        order in any::<u64>(),
        pieces in 1_u32..6,
    ) {
        let limits = ServeLimits {
            memory: ByteSize::new(2 * MIB),
            connection_memory: ByteSize::new(256 << 10),
            connection_bytes: ByteSize::new(MIB),
            request: ByteSize::new(MIB),
            piece: ByteSize::new(64 << 10),
            connection_requests: 8,
            pieces,
            stall_timeout: Nanos::from_ms(20),
            handshake_timeout: Nanos::from_ms(500),
            ..ServeLimits::default()
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut bench = Bench::with(limits, VolumeSettings::default());
            bench.disk.script().holds = true;
            let disk = Arc::clone(&bench.disk);
            let completing = tokio::spawn(async move {
                let mut order = order | 1;
                loop {
                    let held = disk.held();
                    if held > 0 {
                        order = order.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        disk.release((order >> 33) as usize % held);
                    }
                    tokio::task::yield_now().await;
                }
            });
            for (bytes, stays) in hostile {
                let (mut stream, _) = bench.connect();
                tokio::spawn(async move {
                    let sent = stream.write_all(&bytes).await;
                    if stays && sent.is_ok() {
                        // Reads the output slowly until the server disconnects it.
                        let mut scrap = [0; 4096];
                        while matches!(stream.read(&mut scrap).await, Ok(count) if count > 0) {
                            tokio::time::sleep(Duration::from_millis(1)).await;
                        }
                    }
                });
            }
            let mut tasks = Vec::new();
            for (index, steps) in honest.into_iter().enumerate() {
                let client = bench.open("b").await;
                tasks.push(tokio::spawn(behave(client, index as u64 * PART, steps)));
            }
            for task in tasks {
                task.await.expect("an honest client gets what it wrote");
            }
            // Hostile clients with an open export may stay idle: the server ends them.
            bench.phase.send_replace(Phase::Draining);
            tokio::time::sleep(Duration::from_millis(5)).await;
            bench.phase.send_replace(Phase::Leaving);
            let connections = |bench: &Bench| bench.shared.connections.load(Ordering::Relaxed);
            bench.until("all connections ended", |bench| connections(bench) == 0).await;
            completing.abort();
            bench.disk.let_go();
            assert_eq!(bench.shared.pool.used(), 0, "memory was not given back");
            let used = |bench: &Bench| bench.shared.piece_permits.used();
            bench.until("all permits released", |bench| used(bench) == 0).await;
            assert!(bench.disk.script().max_held <= pieces as usize);
        });
    }
}
