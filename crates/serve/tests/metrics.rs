//! Metrics over HTTP, as Prometheus and monitoring request them.

#![allow(clippy::unwrap_used)] // Tests may; clippy knows it only of functions marked as such.

mod common;

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use common::client::Client;
use common::{Sandbox, noise};
use headtime_serve::metrics::METRICS;
use headtime_serve::{HttpEndpoint, Server, StartError};

const CONFIG: &str = "metrics = \"127.0.0.1:0\"\npolicy = \"utilization\"\n[[volume]]\nname = \
    \"rec\"\nsize = \"8MiB\"\ndeadline = \"1h\"\nreserve = \"25%\"\nclasses = \"bulk\"\n";

/// The status line, headers and body of an answer.
fn ask(address: SocketAddr, request: &str) -> (String, String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let (status, headers) = head.split_once("\r\n").unwrap();
    (status.to_owned(), headers.to_owned(), body.to_owned())
}

fn get(address: SocketAddr, path: &str) -> (String, String, String) {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
}

/// The values, by name with labels. All have the label of the drive, which is left out.
fn values(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let (before, after) = name.split_once("drive=\"").unwrap();
            let (_, after) = after.split_once('"').unwrap();
            let name = format!("{before}{}", after.trim_start_matches(','));
            (name.replace(",}", "}").replace("{}", ""), value.parse().unwrap())
        })
        .collect()
}

#[test]
fn text_for_older_scrapers_has_the_same_values() {
    let sandbox = Sandbox::with_file_drive(64);
    let server = sandbox.serve(CONFIG);
    let address = server.http_address(HttpEndpoint::Metrics).unwrap();
    let with = |accept: &str| {
        ask(address, &format!("GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n"))
    };
    let (_, headers, plain) = with("text/plain");
    assert!(headers.contains("text/plain; version=0.0.4"), "{headers}");
    assert!(!plain.contains("# EOF") && !plain.contains("# UNIT"), "{plain}");
    assert!(plain.contains("# TYPE headtime_deadline_requests_total counter\n"), "{plain}");
    assert!(plain.contains("# TYPE headtime_connections gauge\n"), "{plain}");
    let prometheus = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
    let (_, headers, open_metrics) = with(prometheus);
    assert!(headers.contains("application/openmetrics-text"), "{headers}");
    let names = |text: &str| values(text).into_keys().collect::<Vec<String>>();
    assert_eq!(names(&plain), names(&open_metrics));
    let build = format!("headtime_build_info{{version=\"{}\"}}", headtime_serve::VERSION);
    assert_eq!(values(&plain).get(&build), Some(&1.0), "{plain}");
    drop(server);
}

#[test]
fn figures_say_what_was_served_in_base_units() {
    let sandbox = Sandbox::with_file_drive(64);
    let server = sandbox.serve(CONFIG);
    let address = server.http_address(HttpEndpoint::Metrics).unwrap();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut client = Client::open(&sandbox.socket(), "rec").await.unwrap();
        for index in 0..5 {
            client.write(index * 4096, noise(index, 4096)).await.unwrap();
        }
        client.read(0, 8192).await.unwrap();
        let (status, headers, body) = get(address, "/metrics");
        assert_eq!(status, "HTTP/1.1 200 OK");
        assert!(headers.contains("application/openmetrics-text"), "{headers}");
        let values = values(&body);
        let is = |name: &str, value: f64| {
            assert_eq!(values.get(name), Some(&value), "{name} in\n{body}")
        };
        let export = "volume=\"rec\",class=\"\"";
        is(&format!("headtime_request_duration_seconds_count{{{export},op=\"write\"}}"), 5.0);
        is(
            &format!(
                "headtime_request_duration_seconds_bucket{{le=\"+Inf\",{export},op=\"write\"}}"
            ),
            5.0,
        );
        is(&format!("headtime_request_bytes_total{{{export},op=\"write\"}}"), 20_480.0);
        is(&format!("headtime_request_bytes_total{{{export},op=\"read\"}}"), 8_192.0);
        is(&format!("headtime_deadline_requests_total{{{export}}}"), 6.0);
        is(&format!("headtime_deadline_misses_total{{{export},reason=\"late\"}}"), 0.0);
        is(&format!("headtime_export_connections{{{export}}}"), 1.0);
        is("headtime_export_connections{volume=\"rec\",class=\"bulk\"}", 0.0);
        is(&format!("headtime_volume_size_bytes{{{export}}}"), 8_388_608.0);
        is(&format!("headtime_volume_extents{{{export}}}"), 1.0);
        is(&format!("headtime_share_reserve_ratio{{{export}}}"), 0.25);
        is("headtime_connections", 1.0);
        is("headtime_refusals_total{of=\"connection\"}", 0.0);
        let part =
            |part| values[&format!("headtime_service_time_seconds_total{{part=\"{part}\"}}")];
        // Without a profile the model does not split the time.
        let split = ["overhead", "seek", "rotation", "transfer"].map(part);
        assert!(split == [0.0; 4] && part("unpredicted") > 0.0, "{body}");
        assert!(body.contains("drive=\"drive"), "{body}");
        assert!(values["headtime_disk_time_seconds_total{volume=\"rec\",kind=\"service\"}"] > 0.0);
        let buckets: Vec<f64> = values
            .iter()
            .filter(|(name, _)| {
                name.contains("_bucket") && name.contains("class=\"\",op=\"write\"")
            })
            .map(|(_, count)| *count)
            .collect();
        assert!(buckets.len() > 160 && body.ends_with("# EOF\n"), "{body}");
        client.leave().await;
    });
    let (_, _, body) = get(address, "/metrics");
    for metric in METRICS {
        let unit = metric.unit.map_or_else(String::new, |unit| format!("_{unit}"));
        assert!(
            body.contains(&format!("# HELP headtime_{}{unit} ", metric.name)),
            "{} is not in\n{body}",
            metric.name
        );
    }
    let allowed = [
        "volume", "class", "op", "kind", "reason", "state", "errno", "outcome", "part", "answer",
        "of", "priority", "task", "version",
    ];
    assert!(
        METRICS.iter().flat_map(|metric| metric.labels).all(|label| allowed.contains(label)),
        "a label without a bound"
    );
    drop(server);
}

#[test]
fn health_other_paths_and_clients_that_say_nothing() {
    let sandbox = Sandbox::with_file_drive(64);
    let server = sandbox.serve(CONFIG);
    let address = server.http_address(HttpEndpoint::Metrics).unwrap();
    // A silent client occupies one connection, not all of them.
    let silent: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert_eq!(
        get(address, "/healthz"),
        ("HTTP/1.1 200 OK".to_owned(), get(address, "/healthz").1, "ok\n".to_owned())
    );
    assert_eq!(get(address, "/secrets").0, "HTTP/1.1 404 Not Found");
    assert_eq!(
        ask(address, "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").0,
        "HTTP/1.1 405 Method Not Allowed"
    );
    drop(silent);
    drop(server);
    assert!(TcpStream::connect(address).is_err(), "the server has ended");
}

#[test]
fn an_address_that_others_can_reach_needs_to_be_meant() {
    let sandbox = Sandbox::with_file_drive(64);
    let public = CONFIG.replace("127.0.0.1:0", "0.0.0.0:0");
    let refused = Server::start(&sandbox.config(&public)).unwrap_err();
    assert!(
        matches!(refused, StartError::Http(_))
            && refused.to_string().contains("metrics_public = true"),
        "{refused}"
    );
    let server =
        Server::start(&sandbox.config(&format!("metrics_public = true\n{public}"))).unwrap();
    assert!(server.http_address(HttpEndpoint::Metrics).is_some());
    drop(server);
    assert!(!sandbox.path("other").exists());
}
