//! [`Values`]: the tunables of a server as text, and the table of their names.

use std::sync::Arc;

use headtime_io::{PolicyChoice, Tuning};
use headtime_sched::{AutoTable, DEFAULT_POLICY, TUNABLES, TunableError, Tunables};

use crate::auto_table::read_auto_table;

/// A tunable of a running server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunableInfo {
    /// Its name in the configuration and for `headtime get` and `set`.
    pub name: &'static str,
    /// The accepted values.
    pub takes: &'static str,
    /// Its effect, in one line.
    pub summary: &'static str,
    /// Its default, as text.
    pub default: &'static str,
}

/// The values of all tunables.
#[derive(Clone, Debug, Default)]
pub struct Values {
    /// The scheduling policy.
    pub policy: PolicyChoice,
    /// The maximum number of commands at the drive; `None` leaves it to the policy.
    pub outstanding: Option<usize>,
    /// The scheduler's tunables.
    pub tunables: Tunables,
    /// The file of the table of `auto`; empty for the built-in one.
    pub auto_table: String,
}

const POLICY: TunableInfo = TunableInfo {
    name: "policy",
    takes: "a policy's name, with parameters as NAME:parameter=value,…; see `headtime policies`",
    summary: "the policy that chooses the next command; waiting requests are kept",
    default: DEFAULT_POLICY,
};

const OUTSTANDING: TunableInfo = TunableInfo {
    name: "outstanding",
    takes: "a whole number from 1 to 65536, or policy",
    summary: "the maximum number of commands at the drive; policy: the policy decides",
    default: "policy",
};

const AUTO_TABLE: TunableInfo = TunableInfo {
    name: "auto_table",
    takes: "the path of a file that `headtime tune` wrote, or an empty text",
    summary: "the table by which the policy auto chooses; empty: the built-in one",
    default: "",
};

/// The largest accepted value of `outstanding`.
pub(crate) const OUTSTANDING_MAX: usize = 65_536;

/// All tunables: the policy, the number of commands at the drive, and the scheduler's tunables
/// under the names of their paper.
pub fn changeables() -> impl Iterator<Item = TunableInfo> {
    let of_scheduler = |(at, tunable): (usize, &headtime_sched::Tunable)| TunableInfo {
        name: tunable.name,
        takes: tunable.takes,
        summary: tunable.summary,
        default: default_of(at),
    };
    [POLICY, OUTSTANDING, AUTO_TABLE]
        .into_iter()
        .chain(TUNABLES.iter().enumerate().map(of_scheduler))
}

/// The default of each of the scheduler's tunables, in the order of its table. A test compares
/// them.
pub(crate) const fn default_of(tunable: usize) -> &'static str {
    ["use", "", "policy", "clock"][tunable]
}

impl Values {
    /// Sets one tunable.
    ///
    /// # Errors
    /// A message with the name, the value and the accepted values; nothing is changed then.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "policy" => {
                self.policy =
                    PolicyChoice::parse(value).map_err(|error| format!("policy: {error}"))?
            }
            "outstanding" if value == "policy" => self.outstanding = None,
            "outstanding" => {
                let count =
                    value.parse().ok().filter(|count| (1..=OUTSTANDING_MAX).contains(count));
                self.outstanding = Some(count.ok_or_else(|| {
                    format!("outstanding: `{value}` is not valid; write {}", OUTSTANDING.takes)
                })?);
            }
            "auto_table" => {
                let table = match value {
                    "" => None,
                    path => Some(Arc::new(auto_table(path)?)),
                };
                self.tunables.auto_table = table;
                value.clone_into(&mut self.auto_table);
            }
            _ if TUNABLES.iter().any(|tunable| tunable.name == name) => {
                self.tunables.set(name, value).map_err(|error| error.to_string())?
            }
            _ => return Err(unknown(name)),
        }
        Ok(())
    }

    /// The value of a tunable, as a text for [`Values::set`].
    ///
    /// # Errors
    /// A message with the known names.
    pub fn get(&self, name: &str) -> Result<String, String> {
        match name {
            "policy" => Ok(self.policy.to_string()),
            "outstanding" => {
                Ok(self.outstanding.map_or("policy".to_owned(), |count| count.to_string()))
            }
            "auto_table" => Ok(self.auto_table.clone()),
            _ => self.tunables.get(name).map_err(|_| unknown(name)),
        }
    }

    /// The changes from `before` to these values, for the drive.
    pub(crate) fn change_from(&self, before: &Self) -> Tuning {
        Tuning {
            tunables: (self.tunables != before.tunables).then(|| self.tunables.clone()),
            policy: (self.policy.to_string() != before.policy.to_string())
                .then(|| self.policy.clone()),
            outstanding: (self.outstanding != before.outstanding).then_some(self.outstanding),
        }
    }
}

/// Reads the table of a file.
///
/// # Errors
/// A message with the path and what is wrong.
pub fn auto_table(path: &str) -> Result<AutoTable, String> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        format!("auto_table: {path} cannot be read: {error}; write {}", AUTO_TABLE.takes)
    })?;
    read_auto_table(path, &text).map_err(|errors| format!("auto_table: {errors}"))
}

fn unknown(name: &str) -> String {
    let known: Vec<&str> = changeables().map(|known| known.name).collect();
    TunableError::unknown(name, &known).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_the_default_it_says_and_takes_it_back() {
        let values = Values::default();
        for known in changeables() {
            assert_eq!(values.get(known.name).as_deref(), Ok(known.default), "{}", known.name);
            let mut again = Values::default();
            again.set(known.name, known.default).unwrap_or_else(|message| panic!("{message}"));
            assert!(!known.takes.is_empty() && !known.summary.is_empty());
        }
        assert_eq!(changeables().count(), 3 + TUNABLES.len());
    }

    #[test]
    fn what_is_refused_is_named_with_what_would_do() {
        let mut values = Values::default();
        for (name, value, says) in [
            (
                "outstanding",
                "0",
                "outstanding: `0` is not valid; write a whole number from 1 to 65536, or policy",
            ),
            ("policy", "elevator", "policy: there is no policy `elevator`; known are fcfs"),
            ("policy", "sptf-oracle", "`headtime sim` only"),
            ("auto_table", "/no/such/file", "auto_table: /no/such/file cannot be read"),
            (
                "lookahead_k",
                "9",
                "lookahead_k: `9` is no value; write a whole number from 1 to 8, or policy",
            ),
            (
                "color",
                "red",
                "there is no tunable `color`; known are policy, outstanding, auto_table, \
                    latency_matrix, deadlines, lookahead_k, timesource",
            ),
        ] {
            let message = values.set(name, value).expect_err(name);
            assert!(message.contains(says), "{message}");
        }
        assert_eq!(values.get("color"), values.set("color", "red").map(|()| String::new()));
        assert!(matches!(
            values.change_from(&Values::default()),
            Tuning { tunables: None, policy: None, outstanding: None }
        ));
    }
}
