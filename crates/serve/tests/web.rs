//! The live web page over HTTP, as a browser requests it.

#![allow(clippy::unwrap_used)] // Tests may; clippy knows it only of functions marked as such.

mod common;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use common::client::Client;
use common::{Sandbox, noise, runtime};
use headtime_serve::control::ControlClient;
use headtime_serve::{HttpEndpoint, Server, StartError};
use serde_json::Value;

const CONFIG: &str = "web = \"127.0.0.1:0\"\n[[volume]]\nname = \"rec\"\nsize = \"8MiB\"\n\
    deadline = \"1h\"\nreserve = \"25%\"\n[[volume]]\nname = \"db\"\nsize = \"8MiB\"\n\
    limit = \"50%\"\n";

fn address(server: &Server) -> SocketAddr {
    server.http_address(HttpEndpoint::Web).unwrap()
}

fn send(address: SocketAddr, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// The head and the body of an answer that ends.
fn ask(address: SocketAddr, request: &str) -> (String, String) {
    let mut answer = String::new();
    send(address, request).read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

fn get(address: SocketAddr, path: &str) -> (String, String) {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
}

/// An open page.
struct Page(BufReader<TcpStream>);

impl Page {
    fn open(address: SocketAddr) -> Self {
        Self(BufReader::new(send(address, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")))
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line
    }

    fn event(&mut self) -> Value {
        loop {
            let line = self.line();
            assert!(!line.is_empty(), "the stream has ended");
            if let Some(json) = line.strip_prefix("data: ") {
                return serde_json::from_str(json).unwrap();
            }
        }
    }

    /// The first event from now on that has happened after everything before this call.
    fn event_from_now(&mut self) -> Value {
        self.event();
        self.event()
    }
}

/// The answer of the verb `status`, without the uptime, which differs between two moments.
fn status(server: &Server) -> Value {
    let mut client = ControlClient::connect(server.control_socket().unwrap()).unwrap();
    let answer: Value = client.ask("status", Value::Null).unwrap();
    without_times(answer)
}

fn without_times(mut status: Value) -> Value {
    assert!(status.as_object_mut().unwrap().remove("uptime_seconds").is_some());
    for volume in status["volumes"].as_array_mut().unwrap() {
        assert!(volume.as_object_mut().unwrap().remove("recent_percent").is_some());
    }
    status
}

#[test]
fn the_page_is_one_document_that_may_load_nothing_else() {
    let sandbox = Sandbox::with_file_drive(64);
    let server = sandbox.serve(CONFIG);
    let address = address(&server);
    assert_eq!(server.web_page(), Some(format!("http://{address}/")));
    let (head, body) = get(address, "/");
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("text/html"), "{head}");
    let policy = head.lines().find_map(|line| line.strip_prefix("content-security-policy: "));
    let policy = policy.unwrap();
    assert!(policy.starts_with("default-src 'none'; connect-src 'self'"), "{policy}");
    let (_, nonce) = policy.split_once("script-src 'nonce-").unwrap();
    let (nonce, _) = nonce.split_once('\'').unwrap();
    assert!(body.contains(&format!("<script nonce=\"{nonce}\">")) && body.contains("EventSource"));
    assert_eq!(body.matches("<script").count(), 1);
    assert!(!get(address, "/").1.contains(nonce), "each page has a nonce of its own");
    assert!(body.trim_end().ends_with("</html>"));
}

#[test]
fn the_figures_of_an_event_are_those_of_status() {
    let sandbox = Sandbox::with_file_drive(64);
    let server = sandbox.serve(CONFIG);
    let mut page = Page::open(address(&server));
    assert_eq!(page.event()["interval_seconds"], 0.0);
    runtime().block_on(async {
        let mut client = Client::open(&sandbox.socket(), "rec").await.unwrap();
        for index in 0..20 {
            client.write(index * 4096, noise(index, 4096)).await.unwrap();
        }
        client.read(0, 8192).await.unwrap();
        client.leave().await;
    });
    // The client has left before this: nothing changes between the event and the answer.
    while status(&server)["connections"] != 0 {
        std::thread::yield_now();
    }
    let event = page.event_from_now();
    assert_eq!(without_times(event["status"].clone()), status(&server));
    let volumes = event["status"]["volumes"].as_array().unwrap();
    let rec = volumes.iter().find(|volume| volume["name"] == "rec").unwrap();
    assert_eq!((&rec["writes"]["requests"], &rec["reads"]["bytes"]), (&20.into(), &8192.into()));
}

#[test]
fn an_event_tells_what_happened_since_the_one_before() {
    let sandbox = Sandbox::with_tiny_drive();
    let server = sandbox.serve(&CONFIG.replace("1h", "1ns"));
    let mut page = Page::open(address(&server));
    page.event();
    let events = runtime().block_on(async {
        let mut client = Client::open(&sandbox.socket(), "rec").await.unwrap();
        for index in 0..20 {
            client.write(index * 4096, noise(index, 4096)).await.unwrap();
        }
        client.leave().await;
        // The requests are in one of these events, or in two.
        [page.event(), page.event(), page.event()]
    });
    let sum = |of: &dyn Fn(&Value) -> u64| events.iter().map(of).sum::<u64>();
    let rec = |event: &Value| {
        let exports = event["exports"].as_array().unwrap().clone();
        exports.into_iter().find(|export| export["name"] == "rec").unwrap()
    };
    assert_eq!(sum(&|event| rec(event)["requests"].as_u64().unwrap()), 20);
    let heat = |event: &Value| {
        let bins = rec(event)["heat"].as_array().unwrap().clone();
        bins.iter().map(|bin| bin[1].as_u64().unwrap()).sum()
    };
    assert_eq!(sum(&heat), 20, "{events:?}");
    let waits = |event: &Value| {
        let waits = event["waits"].as_array().unwrap().clone();
        waits.iter().map(|waits| waits["requests"].as_u64().unwrap()).sum()
    };
    assert_eq!(sum(&waits), 20);
    let last = &events[2];
    assert_eq!(
        (&rec(last)["reserve_percent"], &rec(last)["limit_percent"]),
        (&25.0.into(), &Value::Null)
    );
    let platter = &last["platter"];
    assert!(platter["tracks"] == true && !platter["zones"].as_array().unwrap().is_empty());
    let volumes: Vec<&str> =
        platter["volumes"].as_array().unwrap().iter().map(|of| of[0].as_str().unwrap()).collect();
    assert_eq!(volumes, ["db", "rec"]);
    let heads = events.iter().flat_map(|event| event["platter"]["heads"].as_array().unwrap());
    for head in heads.clone() {
        let share = |key: &str| (0.0..=1.0).contains(&head[key].as_f64().unwrap());
        assert!(share("position") && share("angle") && head["write"] == true, "{head}");
    }
    assert!(heads.count() >= 20);
    // Every write missed its deadline of a nanosecond, and its parts add up.
    let misses = last["misses"].as_array().unwrap();
    assert_eq!(misses.len(), 20);
    for miss in misses {
        let parts = miss["parts_ms"].as_object().unwrap();
        let sum: f64 = parts.values().map(|part| part.as_f64().unwrap()).sum();
        assert!((sum - miss["response_ms"].as_f64().unwrap()).abs() < 1e-6, "{miss}");
        assert!(parts.contains_key(miss["cause"].as_str().unwrap()) && miss["export"] == "rec");
    }
}

#[test]
fn only_this_machine_reads_the_page_unless_more_is_allowed() {
    let sandbox = Sandbox::with_file_drive(64);
    let public = CONFIG.replace("127.0.0.1:0", "0.0.0.0:0");
    let refused = Server::start(&sandbox.config(&public)).unwrap_err();
    assert!(
        matches!(refused, StartError::Http(_)) && refused.to_string().contains("web_public = true"),
        "{refused}"
    );
    let checked = sandbox.config(&public).check_start().unwrap_err()[0].to_string();
    assert_eq!(checked, refused.to_string());
    assert_eq!(checked.matches("0.0.0.0:0").count(), 1, "{checked}");
    let rebound = "GET / HTTP/1.1\r\nHost: attacker.example:9465\r\n\r\n";
    {
        let server = sandbox.serve(CONFIG);
        let address = address(&server);
        let (head, body) = ask(address, rebound);
        assert!(head.starts_with("HTTP/1.1 403 ") && body.contains("localhost"), "{head}");
        assert!(get(address, "/figures").0.starts_with("HTTP/1.1 404 "));
        let post = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";
        assert!(ask(address, post).0.starts_with("HTTP/1.1 405 "));
    }
    let server = sandbox.serve(&format!("web_public = true\n{public}"));
    let here = SocketAddr::from(([127, 0, 0, 1], address(&server).port()));
    assert_eq!(server.web_page(), Some(format!("http://{here}/")));
    assert!(ask(here, rebound).0.starts_with("HTTP/1.1 200 "));
}

#[test]
fn too_many_pages_are_refused_until_one_is_closed() {
    let sandbox = Sandbox::with_file_drive(64);
    let server = sandbox.serve(CONFIG);
    let address = address(&server);
    let mut pages: Vec<Page> = (0..8).map(|_| Page::open(address)).collect();
    pages.iter_mut().for_each(|page| drop(page.event()));
    let (head, body) = get(address, "/events");
    assert!(head.starts_with("HTTP/1.1 503 ") && body.contains("8 pages are open"), "{head}");
    pages.pop();
    let mut more = loop {
        let mut page = Page::open(address);
        if page.line().starts_with("HTTP/1.1 200 ") {
            break page;
        }
        // The server learns of the closed page.
        std::thread::yield_now();
    };
    assert!(more.event()["status"].is_object());
}

#[test]
fn pages_learn_that_the_server_ends() {
    let sandbox = Sandbox::with_file_drive(64);
    let server = sandbox.serve(CONFIG);
    let mut page = Page::open(address(&server));
    page.event();
    let drained = server.drain(Duration::from_secs(20));
    assert_eq!(drained.exit_code(), 0);
    let mut rest = String::new();
    page.0.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("event: end\ndata: {}\n"), "{rest}");
    assert!(rest.ends_with("0\r\n\r\n"), "the answer ends as HTTP has it: {rest}");
}
