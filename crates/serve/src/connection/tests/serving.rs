//! The requests of one client: served, answered, or ended.

use super::*;
use crate::volumes::ClassSettings;

#[tokio::test]
async fn what_is_written_is_read_back_from_its_own_volume_only() {
    let mut bench = Bench::new();
    let mut a = bench.open("a").await;
    let mut b = bench.open("b").await;
    a.write(4096, pattern(1, 8192)).await.unwrap();
    b.write(4096, pattern(9, 512)).await.unwrap();
    assert_eq!(a.read(4096, 8192).await.unwrap(), pattern(1, 8192));
    assert_eq!(b.read(4096, 1024).await.unwrap()[..512], pattern(9, 512));
    assert_eq!(bench.disk.script().bytes[(BASE + 4096) as usize], 1);
    assert_eq!(bench.disk.script().bytes[(BASE + VOLUME_BYTES + 4096) as usize], 9);
    a.leave().await;
    drop(b);
    bench.until_quiet().await;
    let stats = bench.stats();
    assert_eq!(
        (stats[0].reads.requests, stats[0].writes.bytes, stats[1].reads.bytes),
        (1, 8192, 1024)
    );
}

#[tokio::test]
async fn replies_go_out_in_the_order_of_completion() {
    let mut bench = Bench::new();
    let mut client = bench.open("a").await;
    bench.disk.script().holds = true;
    let ids = [
        client.submit(read(0, 512)),
        client.submit(read(8192, 512)),
        client.submit(read(4096, 512)),
    ];
    client.send().await;
    bench.until("three at the disk", |bench| bench.disk.held() == 3).await;
    bench.disk.release(2);
    assert_eq!(client.completion().await.id, ids[2]);
    bench.disk.release(0);
    assert_eq!(client.completion().await.id, ids[0]);
    bench.disk.release(0);
    assert_eq!(client.completion().await.id, ids[1]);
}

#[tokio::test]
async fn requests_that_arrive_together_all_reach_a_disk_that_answers_none() {
    let mut bench = Bench::new();
    let mut client = bench.open("a").await;
    bench.disk.script().holds = true;
    for number in 0..20 {
        client.submit(NbdCommand::Write {
            offset: number * 4096,
            payload: pattern(1, 4096),
            fua: false,
        });
    }
    client.send().await;
    bench.until("all at the disk", |bench| bench.disk.held() == 20).await;
    bench.disk.let_go();
    for _ in 0..20 {
        assert_eq!(client.completion().await.result, Ok(Reply::Done));
    }
}

#[tokio::test]
async fn an_error_reaches_the_request_it_belongs_to_with_its_meaning() {
    let mut bench = Bench::new();
    let mut client = bench.open("a").await;
    let sector = |offset: u64| Extent::from_numbers((BASE + offset) / 512, 1);
    bench.disk.script().failing = vec![(sector(8192), 5), (sector(16_384), 28)];
    assert!(client.read(0, 8192).await.is_ok());
    let errno = |result: Result<Reply, RequestError>| match result {
        Err(RequestError::Server { errno, text, .. }) => (errno, text),
        other => panic!("{other:?}"),
    };
    let (code, text) = errno(client.request(read(4096, 8192)).await);
    assert!(code == Errno::Io && text.contains("read of"), "{text}");
    let (code, text) = errno(client.write(16_384, pattern(0, 512)).await);
    assert!(code == Errno::NoSpace && text.contains("no space"), "{text}");
    assert!(client.write(20_480, pattern(0, 512)).await.is_ok());
    let stats = &bench.stats()[0];
    assert_eq!((stats.reads.errors, stats.writes.errors, stats.reads.requests), (1, 1, 1));
}

#[tokio::test]
async fn long_requests_reach_the_disk_in_pieces_with_deadline_and_fua() {
    let deadline = Some(Nanos::from_ms(100));
    let ordinary = ClassSettings { deadline, ..ClassSettings::default() };
    let settings = VolumeSettings { ordinary, ..VolumeSettings::default() };
    let mut bench = Bench::with(ServeLimits::default(), settings);
    let mut client = bench.open("a").await;
    let payload = pattern(3, (2 * MIB + 512) as usize);
    client
        .request(NbdCommand::Write { offset: 0, payload: payload.clone(), fua: true })
        .await
        .unwrap();
    assert_eq!(client.read(0, payload.len() as u32).await.unwrap(), payload);
    client
        .request(NbdCommand::WriteZeroes {
            offset: 0,
            length: 512,
            fua: true,
            no_hole: true,
            fast: false,
        })
        .await
        .unwrap();
    client.request(NbdCommand::Flush).await.unwrap();
    let seen = bench.disk.script().seen.clone();
    let lengths: Vec<(Op, u64, bool, bool)> =
        seen.iter().map(|io| (io.op, io.extent.len.get(), io.fua, io.deadline.is_some())).collect();
    let write = |sectors| (Op::Write, sectors, true, true);
    let read = |sectors| (Op::Read, sectors, false, true);
    let rest = [(Op::Zero, 1, true, false), (Op::Flush, 0, false, false)];
    assert_eq!(
        lengths,
        [write(2048), write(2048), write(1), read(2048), read(2048), read(1), rest[0], rest[1]]
    );
    assert!(seen.iter().all(|io| io.volume == VolumeId(1) && io.stream == StreamId(1)));
    assert!(
        seen.iter().all(|io| io.deadline.is_none_or(|deadline| deadline <= Nanos::from_ms(100)))
    );
}

#[tokio::test]
async fn every_command_does_what_it_says() {
    let mut bench = Bench::new();
    let mut client = bench.open("a").await;
    client.write(0, pattern(7, 16_384)).await.unwrap();
    assert_eq!(
        client.request(NbdCommand::Cache { offset: 0, length: 3 << 20 }).await,
        Ok(Reply::Done)
    );
    assert_eq!(
        client.request(NbdCommand::Trim { offset: 4096, length: 4096, fua: true }).await,
        Ok(Reply::Done)
    );
    let zeroes = NbdCommand::WriteZeroes {
        offset: 8192,
        length: 4096,
        fua: false,
        no_hole: false,
        fast: false,
    };
    assert_eq!(client.request(zeroes).await, Ok(Reply::Done));
    let whole = VOLUME_BYTES as u32;
    let status =
        client.request(NbdCommand::BlockStatus { offset: 0, length: whole, single: false }).await;
    assert_eq!(status, Ok(Reply::Extents(vec![StatusExtent { length: whole, state: 0 }])));
    let bytes = client.read(0, 16_384).await.unwrap();
    assert_eq!((bytes[0], bytes[4096], bytes[8192], bytes[12_288]), (7, 0xdd, 0, 7 + 24));
    assert_eq!(bench.stats()[0].others.requests, 4);
}

#[tokio::test]
async fn a_read_only_volume_takes_no_writes() {
    let mut bench = Bench::with(
        ServeLimits::default(),
        VolumeSettings { read_only: true, ..VolumeSettings::default() },
    );
    let client = bench.open("a").await;
    let flags = client.machine.session().unwrap().export.flags;
    assert!(flags.contains(ExportFlags::READ_ONLY) && !flags.contains(ExportFlags::SEND_TRIM));
}

#[tokio::test]
async fn of_a_client_that_leaves_writes_are_carried_out_and_reads_cancelled() {
    let mut bench = Bench::new();
    let (stream, task) = bench.connect();
    let mut client = Client::over(stream, "a").await.unwrap();
    bench.disk.script().holds = true;
    client.submit(read(0, 3 << 20));
    client.submit(NbdCommand::Write { offset: 4096, payload: pattern(5, 512), fua: false });
    client.send().await;
    bench.until("three pieces and a write at the disk", |bench| bench.disk.held() == 4).await;
    drop(client);
    bench.until("the reads are cancelled", |bench| bench.disk.held() == 1).await;
    assert!(!task.is_finished(), "it stays until its write is over");
    bench.disk.let_go();
    task.await.unwrap();
    assert_eq!(bench.disk.script().bytes[(BASE + 4096) as usize], 5);
    assert_eq!(bench.disk.script().ended, [StreamId(1)], "the policy expects nothing from it");
    bench.until_quiet().await;
    assert_eq!(bench.stats()[0].reads.requests, 0);
}

#[tokio::test]
async fn a_write_that_did_not_arrive_wholly_never_happens() {
    let mut bench = Bench::new();
    let mut client = bench.open("a").await;
    client.submit(NbdCommand::Write { offset: 0, payload: pattern(1, 65_536), fua: false });
    let mut bytes = Vec::new();
    while let Some(piece) = client.machine.poll_output() {
        bytes.extend_from_slice(&piece);
    }
    client.stream.write_all(&bytes[..bytes.len() - 1]).await.unwrap();
    drop(client);
    bench.until_quiet().await;
    assert!(bench.disk.script().seen.is_empty());
}

#[tokio::test]
async fn draining_answers_what_is_in_flight_and_refuses_the_rest() {
    let mut bench = Bench::new();
    let (stream, task) = bench.connect();
    let mut client = Client::over(stream, "a").await.unwrap();
    let (half_open, half_open_task) = bench.connect();
    bench.disk.script().holds = true;
    let write =
        client.submit(NbdCommand::Write { offset: 0, payload: pattern(1, 512), fua: false });
    client.send().await;
    bench.until("a write at the disk", |bench| bench.disk.held() == 1).await;
    bench.phase.send_replace(Phase::Draining);
    assert!(matches!(half_open_task.await.unwrap(), End::ShutDown | End::Protocol(_)));
    drop(half_open);
    let late = client.submit(read(0, 512));
    let refused = client.completion().await;
    assert_eq!(refused.id, late);
    assert!(
        matches!(refused.result, Err(RequestError::Server { errno: Errno::Shutdown, .. })),
        "{refused:?}"
    );
    assert!(!task.is_finished());
    bench.disk.let_go();
    let done = client.completion().await;
    assert_eq!((done.id, done.result), (write, Ok(Reply::Done)));
    assert!(matches!(client.event().await, ClientEvent::Closed(_)));
    drop(client);
    assert_eq!(task.await.unwrap(), End::ShutDown);
    bench.until_quiet().await;
}

#[tokio::test]
async fn a_handshake_that_does_not_end_is_ended() {
    let limits = ServeLimits { handshake_timeout: Nanos::from_ms(20), ..ServeLimits::default() };
    let mut bench = Bench::with(limits, VolumeSettings::default());
    let (stream, task) = bench.connect();
    assert!(matches!(task.await.unwrap(), End::HandshakeTimeout(_)));
    drop(stream);
    bench.until_quiet().await;
}

#[tokio::test]
async fn an_open_export_does_not_time_out() {
    let limits = ServeLimits {
        handshake_timeout: Nanos::from_ms(50),
        stall_timeout: Nanos::from_ms(10),
        ..ServeLimits::default()
    };
    let mut bench = Bench::with(limits, VolumeSettings::default());
    let mut client = bench.open("a").await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(client.read(0, 512).await.is_ok());
}

#[tokio::test]
async fn a_drive_that_gives_too_little_is_an_error_and_not_a_short_reply() {
    let mut bench = Bench::new();
    let mut client = bench.open("a").await;
    bench.disk.script().holds = true;
    client.submit(read(0, 1024));
    client.send().await;
    bench.until("a read at the disk", |bench| bench.disk.held() == 1).await;
    let (_, _, on_done) = bench.disk.script().held.remove(0);
    on_done(IoDone { finished: None, result: Ok(Bytes::from_static(&[0; 512])) });
    let result = client.completion().await.result;
    assert!(matches!(result, Err(RequestError::Server { errno: Errno::Io, .. })), "{result:?}");
}
