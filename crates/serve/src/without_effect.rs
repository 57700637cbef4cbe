//! Settings that have no effect, or not the one that they promise, as warnings for people: shares
//! and deadlines under a policy that ignores them, tunables that the policy does not use, and a
//! deadline without a reservation beside others that have one.

use headtime_io::PolicyChoice;
use headtime_units::Share;

use crate::export::Export;
use crate::tuner::TunableStatus;
use crate::volumes::shares;

/// The settings of one export.
struct Exported {
    name: String,
    has_terms: bool,
    has_reserve: bool,
    has_deadline: bool,
    has_priority: bool,
}

/// The warnings about the settings in force.
pub(crate) fn warnings(
    policy: &PolicyChoice,
    tunables: &[TunableStatus],
    exports: &[std::sync::Arc<Export>],
) -> Vec<String> {
    let of_class = |export: &std::sync::Arc<Export>| {
        let class = export.volume.settings().of_class(export.class)?;
        Some(Exported {
            name: export.name.clone(),
            has_reserve: class.reserve != Share::NONE,
            has_terms: shares::terms(&class, export.volume.sector).is_some(),
            has_deadline: class.deadline.is_some(),
            has_priority: class.priority.is_some(),
        })
    };
    let exports: Vec<Exported> = exports.iter().filter_map(of_class).collect();
    let table = tunables.iter().find(|tunable| tunable.name == "deadlines");
    let by_priority = table.is_some_and(|table| !table.value.is_empty());
    let due = |export: &Exported| export.has_deadline || (by_priority && export.has_priority);
    let name = policy.name();
    let mut warnings = Vec::new();
    if name == "bfq" {
        warnings.extend(about(&exports, |export| export.has_terms).map(|with| {
            format!(
                "policy bfq takes the reserve, weight and priority of {with} as weights without a \
                    guarantee, and ignores limit, burst and rate limits; headtime and utilization \
                    honor all (`headtime set policy=headtime`)"
            )
        }));
    } else if !policy.enforces_shares() {
        warnings.extend(about(&exports, |export| export.has_terms).map(|with| {
            format!(
                "policy {name} ignores the reserve, limit, burst, weight, priority and rate limits \
                    of {with}; headtime and utilization honor them (`headtime set policy=headtime`)"
            )
        }));
    }
    if !policy.entry().orders_by_deadline() {
        warnings.extend(about(&exports, due).map(|with| {
            format!(
                "policy {name} ignores the deadlines of {with}, so that misses are only counted; \
                    headtime orders by them (`headtime set policy=headtime`)"
            )
        }));
    }
    if name == "edf" && exports.iter().any(due) {
        warnings.extend(about(&exports, |export| !due(export)).map(|without| {
            format!(
                "policy edf serves requests without a deadline only while none with one waits, so \
                    that {without} may starve; give them one, or use headtime"
            )
        }));
    }
    if policy.enforces_shares() && exports.iter().any(|export| export.has_reserve) {
        let late = |export: &Exported| due(export) && !export.has_reserve;
        warnings.extend(about(&exports, late).map(|without| {
            format!(
                "{without} has a deadline and no reservation, and waits for the volumes that have \
                    one; reserve some disk time for it too (`headtime plan` computes it; `headtime \
                    volume set NAME reserve=10%`)"
            )
        }));
    }
    if by_priority && !exports.iter().any(|export| export.has_priority) {
        warnings.push(
            "deadlines: no volume has a priority, so that the table gives no request a deadline; \
                set one (`headtime volume set NAME priority=rt`)"
                .to_owned(),
        );
    }
    let unused = |tunable: &&TunableStatus| {
        tunable.name != "deadlines"
            && tunable.value != tunable.default
            && (!policy.entry().uses_tunable(&tunable.name)
                || tunable.name == "auto_table" && name != "auto")
    };
    warnings.extend(tunables.iter().filter(unused).map(|tunable| {
        format!("{} = {} has no effect under the policy {name}", tunable.name, tunable.value)
    }));
    warnings
}

/// The names of the first few exports that `selected` accepts.
fn about(exports: &[Exported], selected: impl Fn(&Exported) -> bool) -> Option<String> {
    const NAMED: usize = 4;
    let names: Vec<&str> = exports
        .iter()
        .filter(|export| selected(export))
        .map(|export| export.name.as_str())
        .collect();
    let more = names.len().saturating_sub(NAMED);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!names.is_empty()).then(|| format!("{}{rest}", names[..names.len() - more].join(", ")))
}
