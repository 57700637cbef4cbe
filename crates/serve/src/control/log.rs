//! The log of commands that change something, with the process that gave them and their outcome.

use std::fmt;

use serde_json::Value;
use tokio::net::UnixStream;

use super::verbs::Answer;

/// The process at the other end of a control connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Caller {
    user: Option<u32>,
    process: Option<i32>,
    /// The name of the program.
    program: Option<String>,
}

impl Caller {
    pub(super) fn of(socket: &UnixStream) -> Self {
        let Ok(peer) = socket.peer_cred() else { return Self::default() };
        let name = |process: i32| std::fs::read_to_string(format!("/proc/{process}/comm")).ok();
        let program =
            peer.pid().and_then(name).map(|name| name.trim_end().escape_debug().to_string());
        Self { user: Some(peer.uid()), process: peer.pid(), program }
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.user {
            Some(user) => write!(f, "user {user}")?,
            None => f.write_str("an unknown user")?,
        }
        match (self.process, &self.program) {
            (Some(process), Some(program)) => write!(f, ", process {process} ({program})"),
            (Some(process), None) => write!(f, ", process {process}"),
            (None, _) => Ok(()),
        }
    }
}

/// Logs a command that changes something. One that only shows what it would do changes nothing.
pub(super) fn log(caller: &Caller, verb: &str, arguments: &Value, answer: &Answer) {
    if arguments.get("dry_run") == Some(&Value::Bool(true)) {
        return;
    }
    let outcome = match answer {
        Ok(_) => "done".to_owned(),
        Err(refused) => format!("refused: {}", refused.message),
    };
    let arguments = shown(arguments);
    tracing::info!("control: {caller}: {verb}{arguments}: {outcome}");
}

/// The arguments that say something, as JSON after a blank.
fn shown(arguments: &Value) -> String {
    let mut arguments = arguments.clone();
    let says = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => true,
    };
    if let Some(map) = arguments.as_object_mut() {
        map.retain(|_, value| says(value));
    }
    if !says(&arguments) {
        return String::new();
    }
    let text = arguments.to_string();
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!(" {} …", &text[..end]),
        None => format!(" {text}"),
    }
}

/// The characters of the arguments in a line of the log.
const MAX_SHOWN: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_line_has_the_arguments_that_say_something() {
        let set = json!({"name": "a", "settings": {"reserve": "40%"}, "force": false, "to": null});
        assert_eq!(shown(&set), r#" {"name":"a","settings":{"reserve":"40%"}}"#);
        assert_eq!(shown(&json!({"settings": {}, "names": []})), "");
        assert_eq!(shown(&Value::Null), "");
        let long = shown(&json!({"name": "ä\n".repeat(600)}));
        assert!(long.ends_with(" …") && !long.contains('\n'), "{long}");
        assert_eq!(long.chars().count(), MAX_SHOWN + 3);
    }

    #[test]
    fn a_caller_is_named_as_far_as_it_is_known() {
        let full = Caller { user: Some(0), process: Some(7), program: Some("headtime".to_owned()) };
        assert_eq!(full.to_string(), "user 0, process 7 (headtime)");
        assert_eq!(Caller::default().to_string(), "an unknown user");
    }
}
