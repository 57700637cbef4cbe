//! The HTTP endpoints `/metrics` for Prometheus and `/healthz` for monitoring.

mod exposition;
mod table;

use std::sync::Arc;

use headtime_io::{LinkState, RealClock};
use headtime_units::Nanos;
use hyper::HeaderMap;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};

pub use table::{METRICS, MetricFamily};

use crate::http::{HttpBody, plain};
use crate::stats::{Stats, StatsSnapshot};

/// A snapshot older than this means that the engine does not respond.
const STALE: Nanos = Nanos::from_secs(2);

/// Answers one request. `drive` is the label of all metrics.
pub(crate) async fn answer(
    request: Request<Incoming>,
    stats: Arc<Stats>,
    drive: Arc<str>,
) -> Response<HttpBody> {
    let path = request.uri().path();
    if !matches!(path, "/metrics" | "/healthz") {
        return plain(StatusCode::NOT_FOUND, "there are /metrics and /healthz\n".to_owned());
    }
    let metrics = path == "/metrics";
    let content_type = accepted(request.headers());
    // A snapshot may wait for the engine.
    let snapshot = tokio::task::spawn_blocking(move || stats.snapshot()).await;
    let Ok(snapshot) = snapshot else {
        return plain(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the metrics are not available\n".to_owned(),
        );
    };
    if !metrics {
        let problems = problems(&snapshot);
        let healthy = problems.is_empty();
        let text = if healthy { "ok\n".to_owned() } else { problems.join("\n") + "\n" };
        return plain(if healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, text);
    }
    match exposition::exposition(snapshot, &drive) {
        Ok(text) => {
            let is_plain = content_type == PLAIN_TEXT;
            let text = if is_plain { exposition::plain_text(&text) } else { text };
            let mut answer = plain(StatusCode::OK, text);
            answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
            answer
        }
        Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

/// The content type of the metrics that the client prefers: OpenMetrics, unless it asks for plain
/// text and not, or less, for that.
fn accepted(headers: &HeaderMap) -> &'static str {
    let items = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let (mut open_metrics, mut plain_text) = (0.0, 0.0);
    for item in items.flat_map(|value| value.split(',')) {
        let mut parameters = item.split(';').map(str::trim);
        let preference = match parameters.next() {
            Some("application/openmetrics-text") => &mut open_metrics,
            Some("text/plain" | "text/*") => &mut plain_text,
            _ => continue,
        };
        let quality = parameters.find_map(|parameter| parameter.strip_prefix("q="));
        let quality: f64 = quality.and_then(|quality| quality.parse().ok()).unwrap_or(1.0);
        *preference = quality.max(*preference);
    }
    if plain_text > open_metrics { PLAIN_TEXT } else { OPEN_METRICS }
}

/// The content types of the metrics.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns whether the drive's engine has answered lately.
pub(crate) fn engine_responds(snapshot: &StatsSnapshot) -> bool {
    age(snapshot) <= STALE
}

fn age(snapshot: &StatsSnapshot) -> Nanos {
    RealClock.now().saturating_since(snapshot.drive.taken)
}

/// The problems that affect the service.
pub(crate) fn problems(snapshot: &StatsSnapshot) -> Vec<String> {
    let drive = &snapshot.drive;
    let mut problems = Vec::new();
    let age = age(snapshot);
    if age > STALE {
        problems.push(format!("the drive's engine has not answered for {age}"));
    }
    if drive.hung.given_up > 0 {
        problems.push(format!(
            "the drive does not answer {} commands that were given up",
            drive.hung.given_up
        ));
    }
    if let Some(LinkState::Away { cause, .. }) = drive.link.as_ref().map(|link| &link.state) {
        problems.push(format!("the drive is not connected: {cause}"));
    }
    problems
}
