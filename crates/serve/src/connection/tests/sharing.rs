//! Memory, permits and connections that clients share: no client takes the share of another, and
//! everything is released in the end.

use super::*;

#[tokio::test]
async fn a_client_that_does_not_read_holds_up_nobody_and_no_more_memory_than_its_own() {
    let limits = ServeLimits {
        memory: ByteSize::new(8 * MIB),
        request: ByteSize::new(4 * MIB),
        connection_bytes: ByteSize::new(4 * MIB),
        ..ServeLimits::default()
    };
    let mut bench = Bench::with(limits, VolumeSettings::default());
    let mut slow = Vec::new();
    for _ in 0..4 {
        let mut client = bench.open("a").await;
        for _ in 0..15 {
            client.submit(read(0, 4 << 20));
        }
        client.send().await;
        slow.push(client);
    }
    bench.until("the pool is used up", |bench| bench.shared.pool.waiting() > 0).await;
    assert!(u64::from(bench.shared.pool.used()) * 4096 <= 8 * MIB);
    let mut quick = bench.open("b").await;
    for index in 0..50 {
        quick.write(index * 4096, pattern(index as u8, 4096)).await.unwrap();
        assert_eq!(quick.read(index * 4096, 4096).await.unwrap(), pattern(index as u8, 4096));
    }
    let all_read = slow.into_iter().map(|mut client| {
        tokio::spawn(async move {
            for _ in 0..15 {
                let result = client.completion().await.result;
                assert!(matches!(result, Ok(Reply::Data(data)) if data.len() == 4 << 20));
            }
        })
    });
    for reader in all_read.collect::<Vec<_>>() {
        reader.await.expect("a reader that starts late gets everything");
    }
    drop(quick);
    bench.until_quiet().await;
}

#[tokio::test]
async fn a_client_that_keeps_memory_others_wait_for_is_shown_out() {
    let limits = ServeLimits {
        memory: ByteSize::new(4 * MIB),
        request: ByteSize::new(4 * MIB),
        connection_bytes: ByteSize::new(4 * MIB),
        connection_memory: ByteSize::new(64 << 10),
        stall_timeout: Nanos::from_ms(30),
        ..ServeLimits::default()
    };
    let mut bench = Bench::with(limits, VolumeSettings::default());
    let (stream, idle_reader) = bench.connect();
    let mut client = Client::over(stream, "a").await.unwrap();
    client.submit(read(0, 4 << 20));
    client.send().await;
    bench
        .until("it holds the pool", |bench| u64::from(bench.shared.pool.used()) * 4096 >= 3 * MIB)
        .await;
    let mut other = bench.open("b").await;
    assert_eq!(other.read(0, 4 << 20).await.unwrap().len(), 4 << 20);
    assert!(matches!(idle_reader.await.unwrap(), End::Stalled(_)));
    // The same with a payload that is announced and never sent.
    let (stream, idle_writer) = bench.connect();
    let mut client = Client::over(stream, "a").await.unwrap();
    client.submit(NbdCommand::Write { offset: 0, payload: pattern(0, 4 << 20), fua: false });
    let header = client.machine.poll_output().unwrap();
    client.stream.write_all(&header).await.unwrap();
    bench
        .until("it holds the pool", |bench| u64::from(bench.shared.pool.used()) * 4096 >= 3 * MIB)
        .await;
    assert_eq!(other.read(0, 4 << 20).await.unwrap().len(), 4 << 20);
    assert!(matches!(idle_writer.await.unwrap(), End::Stalled(_)));
    drop(other);
    bench.until_quiet().await;
    assert!(bench.disk.script().seen.iter().all(|io| io.op == Op::Read));
}

#[tokio::test]
async fn the_disk_never_holds_more_pieces_than_there_are_places() {
    let limits = ServeLimits { pieces: 3, ..ServeLimits::default() };
    let mut bench = Bench::with(limits, VolumeSettings::default());
    bench.disk.script().holds = true;
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client = bench.open("a").await;
        for _ in 0..10 {
            client.submit(read(0, 2 << 20));
        }
        client.send().await;
        clients.push(client);
    }
    bench.until("all permits are in use", |bench| bench.disk.held() == 3).await;
    let mut answered = 0;
    for client in &mut clients {
        for _ in 0..10 {
            let mut pending = Box::pin(client.completion());
            loop {
                tokio::select! {
                    biased;
                    completion = &mut pending => {
                        assert!(completion.result.is_ok());
                        answered += 1;
                        break;
                    }
                    () = tokio::time::sleep(Duration::from_millis(1)) => {
                        if bench.disk.held() > 0 {
                            bench.disk.release(0)
                        }
                    }
                }
            }
        }
    }
    assert_eq!((answered, bench.disk.script().max_held), (30, 3));
    drop(clients);
    bench.disk.let_go();
    bench.until_quiet().await;
}

#[tokio::test]
async fn an_export_that_is_held_back_leaves_places_and_memory_to_others() {
    let limits = ServeLimits {
        pieces: 12,
        memory: ByteSize::new(12 * MIB),
        request: ByteSize::new(MIB),
        piece: ByteSize::new(256 << 10),
        connection_bytes: ByteSize::new(4 * MIB),
        connection_memory: ByteSize::new(64 << 10),
        ..ServeLimits::default()
    };
    let mut bench = Bench::with(limits, VolumeSettings::default());
    bench.disk.script().holds = true;
    let mut greedy = Vec::new();
    for _ in 0..20 {
        let mut client = bench.open("a").await;
        for index in 0..30 {
            client.submit(read(index % 5 * MIB, 1 << 20));
        }
        client.send().await;
        greedy.push(client);
    }
    // Floors of two permits and 2 MiB for each of two exports and one more.
    bench
        .until("a has what it is given of the pool", |bench| {
            u64::from(bench.shared.pool.used()) * 4096 > 7 * MIB
        })
        .await;
    bench.until("a has its maximum of permits", |bench| bench.disk.held() == 8).await;
    let mut other = bench.open("b").await;
    let of_b = |bench: &Bench| {
        bench.disk.script().held.iter().filter(|(_, io, _)| io.volume == VolumeId(2)).count()
    };
    for round in 0..6 {
        // Eight at once, which exceeds both floors.
        for index in 0..8 {
            other.submit(read(index * (512 << 10), 512 << 10));
        }
        other.submit(NbdCommand::Flush);
        other.send().await;
        for _ in 0..9 {
            let mut answer = Box::pin(other.completion());
            loop {
                tokio::select! {
                    biased;
                    completion = &mut answer => {
                        completion.result.unwrap();
                        break;
                    }
                    () = tokio::time::sleep(Duration::from_micros(200)) => {
                        // The drive completes the requests of b and none of a, as if a were at its
                        // limit.
                        let index = {
                            let script = bench.disk.script();
                            script.held.iter().position(|(_, io, _)| io.volume == VolumeId(2))
                        };
                        index.into_iter().for_each(|index| bench.disk.release(index));
                    }
                }
            }
        }
        assert_eq!((of_b(&bench), bench.disk.held()), (0, 8), "round {round}: a has what it had");
        assert!(u64::from(bench.shared.pool.used()) * 4096 <= 8 * MIB);
    }
    assert!(bench.disk.script().max_held <= 12);
    drop((greedy, other));
    bench.disk.let_go();
    bench.until_quiet().await;
}

#[tokio::test]
async fn two_connections_never_wait_for_what_the_other_keeps_idle() {
    // Each gets 3 MiB, completes one read, and then needs 4 of the 5 MiB.
    let limits = ServeLimits {
        memory: ByteSize::new(5 * MIB),
        request: ByteSize::new(4 * MIB),
        piece: ByteSize::new(256 << 10),
        connection_bytes: ByteSize::new(8 * MIB),
        connection_memory: ByteSize::new(0),
        ..ServeLimits::default()
    };
    let mut bench = Bench::with(limits, VolumeSettings::default());
    let clients = ["a", "b"].map(|export| {
        let (stream, _) = bench.connect();
        tokio::spawn(async move {
            let mut client = Client::over(stream, export).await.unwrap();
            for _ in 0..20 {
                for length in [2 << 20, 4 << 20, 1 << 20] {
                    client.submit(read(0, length));
                }
                client.submit(NbdCommand::Cache { offset: 0, length: 3 << 20 });
                for _ in 0..4 {
                    client.completion().await.result.unwrap();
                }
                client.write(MIB, pattern(3, 3 << 20)).await.unwrap();
            }
        })
    });
    for client in clients {
        timeout(Duration::from_secs(60), client).await.expect("they get on").unwrap();
    }
    bench.until_quiet().await;
    assert_eq!(bench.shared.pool.used(), 0);
}

#[tokio::test]
async fn a_connection_is_never_let_have_more_in_flight_than_it_can_be_given_memory_for() {
    let limits = ServeLimits {
        memory: ByteSize::new(6 * MIB),
        request: ByteSize::new(2 * MIB),
        connection_bytes: ByteSize::new(64 * MIB),
        connection_memory: ByteSize::new(64 << 10),
        ..ServeLimits::default()
    };
    let mut bench = Bench::with(limits, VolumeSettings::default());
    bench.disk.script().holds = true;
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client = bench.open("a").await;
        for _ in 0..30 {
            client.submit(read(0, 2 << 20));
        }
        client.send().await;
        clients.push(client);
    }
    bench.until("something is at the disk", |bench| bench.disk.held() > 0).await;
    bench.disk.let_go();
    for client in &mut clients {
        for _ in 0..30 {
            client.completion().await.result.unwrap();
        }
    }
    // The pool and the own memory of three connections.
    assert!(
        bench.disk.script().max_held_bytes <= 6 * MIB + 3 * (64 << 10),
        "{}",
        bench.disk.script().max_held_bytes
    );
    drop(clients);
    bench.until_quiet().await;
}

#[tokio::test]
async fn connections_of_one_export_leave_room_for_those_of_another() {
    let mut bench = Bench::with(
        ServeLimits { connections: 12, ..ServeLimits::default() },
        VolumeSettings::default(),
    );
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(bench.open("a").await);
    }
    let (stream, refused) = bench.connect();
    let reason = Client::over(stream, "a").await.err().expect("there is no room").to_string();
    assert!(reason.contains("reserved for other exports"), "{reason}");
    refused.await.unwrap();
    for _ in 0..2 {
        clients.push(bench.open("b").await);
    }
    clients.remove(0).leave().await;
    bench.until("a place is free again", |bench| bench.shared.export_permits.used() == 9).await;
    clients.push(bench.open("a").await);
    drop(clients);
    bench.until_quiet().await;
    assert_eq!(bench.shared.export_permits.used(), 0);
}

#[tokio::test]
async fn a_flood_of_cache_requests_reads_a_window_at_a_time() {
    let mut bench = Bench::new();
    bench.disk.script().holds = true;
    let mut client = bench.open("a").await;
    for _ in 0..100 {
        client.submit(NbdCommand::Cache { offset: 0, length: 6 << 20 });
    }
    client.send().await;
    bench.until("a window at the disk", |bench| bench.disk.held() == WINDOW).await;
    bench.disk.release(0);
    bench.until("the next piece at the disk", |bench| bench.disk.held() == WINDOW).await;
    bench.disk.let_go();
    for _ in 0..100 {
        assert_eq!(client.completion().await.result, Ok(Reply::Done));
    }
    assert!(bench.disk.script().max_held_bytes <= WINDOW as u64 * MIB);
}

#[tokio::test]
async fn a_client_that_leaves_while_its_next_request_waits_for_room_gives_everything_back() {
    let limits = ServeLimits {
        request: ByteSize::new(MIB),
        connection_bytes: ByteSize::new(MIB),
        ..ServeLimits::default()
    };
    let mut bench = Bench::with(limits, VolumeSettings::default());
    let (stream, task) = bench.connect();
    let mut client = Client::over(stream, "a").await.unwrap();
    for _ in 0..15 {
        client.submit(read(0, 1 << 20));
    }
    client.send().await;
    bench.until("a reply that is not read", |bench| bench.stats()[0].reads.requests > 0).await;
    drop(client);
    bench.until("its task ends", |_| task.is_finished()).await;
    bench.until_quiet().await;
}
