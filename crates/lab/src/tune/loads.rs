//! The loads of `headtime tune`: each is a workload text, and its name.

use std::sync::Arc;

use headtime_workload::file::WorkloadFile;

/// The loads: single streams first, then mixtures. Places are shares of the drive, so that every
/// drive can be measured. Sizes, numbers and shares are a grid, and no published workload is among
/// them; the files of the benchmarks are a twentieth of P3's.
const LOADS: &[(&str, &str)] = &[
    ("one random reader of 4 KiB", "clients=1"),
    ("4 random readers of 4 KiB", "clients=4"),
    ("16 random readers of 4 KiB", "clients=16"),
    ("64 random readers of 4 KiB", "clients=64"),
    ("4 random readers of 64 KiB", "clients=4, size='64KiB'"),
    ("16 random readers of 64 KiB", "clients=16, size='64KiB'"),
    ("4 random readers of 1 MiB", "clients=4, size='1MiB'"),
    ("16 random readers of 1 MiB", "clients=16, size='1MiB'"),
    ("4 random clients, a third writes", "clients=4, size='8KiB', reads=0.67"),
    ("16 random clients, a third writes", "clients=16, size='8KiB', reads=0.67"),
    ("64 random clients, a third writes", "clients=64, size='8KiB', reads=0.67"),
    ("one random writer of 8 KiB", "clients=1, size='8KiB', reads=0.0"),
    ("16 random writers of 8 KiB", "clients=16, size='8KiB', reads=0.0"),
    ("8 random clients of 8 KiB, durable writes", "clients=8, size='8KiB', reads=0.5, fua=1.0"),
    ("one sequential reader of 4 KiB", "clients=1, run='sequential'"),
    ("one sequential reader of 64 KiB", "clients=1, size='64KiB', run='sequential'"),
    (
        "one sequential reader of 64 KiB, depth 8",
        "clients=8, size='64KiB', run='sequential', positions=1",
    ),
    ("2 sequential readers of 64 KiB", "clients=2, size='64KiB', run='sequential'"),
    ("4 sequential readers of 64 KiB", "clients=4, size='64KiB', run='sequential'"),
    ("16 sequential readers of 64 KiB", "clients=16, size='64KiB', run='sequential'"),
    ("4 sequential readers of 1 MiB", "clients=4, size='1MiB', run='sequential'"),
    ("4 readers of runs of 16", "clients=4, size='64KiB', run={kind='fixed', requests=16}"),
    ("16 readers of runs of 16", "clients=16, size='64KiB', run={kind='fixed', requests=16}"),
    ("one sequential writer of 1 MiB", "clients=1, size='1MiB', run='sequential', reads=0.0"),
    ("4 sequential writers of 64 KiB", "clients=4, size='64KiB', run='sequential', reads=0.0"),
    (
        "a sequential reader and a writer",
        "clients=2, size='256KiB', run='sequential', reads=1.0; clients=2, size='256KiB', \
            run='sequential', reads=0.0",
    ),
    (
        "one random reader beside a sequential one",
        "clients=1; clients=2, positions=1, size='128KiB', run='sequential'",
    ),
    (
        "8 random readers beside a sequential one",
        "clients=8; clients=2, positions=1, size='128KiB', run='sequential'",
    ),
    (
        "8 random clients beside a sequential reader of 1 MiB",
        "clients=8, size='8KiB', reads=0.67; clients=4, positions=1, size='1MiB', run='sequential'",
    ),
    (
        "4 random readers beside a sequential writer",
        "clients=4; clients=4, positions=1, size='256KiB', run='sequential', reads=0.0",
    ),
    ("2 readers of files", "clients=2, process='reader', think='20us', range='10%..60%'"),
    (
        "a chain of processes",
        "clients=1, process={kind='chain', file='16KiB'}, think='20us', range='10%..20%'",
    ),
    (
        "2 chains of processes",
        "clients=2, process={kind='chain', file='16KiB'}, think='20us', range='10%..60%'",
    ),
    (
        "a chain of processes beside a reader",
        "clients=1, process='reader', think='20us', range='70%..90%'; clients=1, \
            process={kind='chain', file='16KiB'}, think='20us', range='10%..20%'",
    ),
    (
        "a writer through a page cache beside a reader",
        "clients=1, process={kind='writer', file='1GiB', memory='256MiB'}, size='256KiB', \
            think='1ms', range='10%..40%'; clients=1, process='reader', think='20us', \
            range='60%..90%'",
    ),
    (
        "a writer through a page cache beside a chain",
        "clients=1, process={kind='writer', file='1GiB', memory='256MiB'}, size='256KiB', \
            think='1ms', range='10%..40%'; clients=1, process={kind='chain', file='16KiB'}, \
            think='20us', range='60%..90%'",
    ),
    (
        "8 threads that read small files",
        "clients=8, process={kind='files', reads=1.0, files=5000, memory='50MiB'}, think='50us'",
    ),
    (
        "8 threads that read and write small files",
        "clients=8, process={kind='files', reads=0.7, writes=0.3, files=5000, memory='50MiB'}, \
            think='50us'",
    ),
    (
        "8 threads that read and create small files",
        "clients=8, process={kind='files', reads=0.4, creates=0.3, deletes=0.3, files=5000, \
            memory='50MiB'}, think='50us'",
    ),
    (
        "8 threads that create and extend small files",
        "clients=8, process={kind='files', creates=0.4, appends=0.3, deletes=0.3, files=5000, \
            memory='50MiB'}, think='50us'",
    ),
    (
        "a recorder with deadlines beside random clients",
        "arrivals={kind='constant', rate=12.0}, size='256KiB', run='sequential', reads=0.0, \
            deadline='250ms'; clients=6, size='8KiB', reads=0.67",
    ),
    (
        "a recorder with deadlines beside a sequential reader",
        "arrivals={kind='constant', rate=12.0}, size='256KiB', run='sequential', reads=0.0, \
            deadline='250ms'; clients=4, positions=1, size='1MiB', run='sequential'",
    ),
    (
        "random readers with deadlines beside others",
        "clients=4, deadline='60ms'; clients=12, size='64KiB'",
    ),
];

/// A load of `headtime tune`.
#[derive(Clone, Debug)]
pub(crate) struct TuneLoad {
    pub(crate) name: String,
    /// Its streams.
    pub(crate) file: Arc<WorkloadFile>,
}

pub(crate) fn loads() -> Vec<TuneLoad> {
    LOADS.iter().map(|(name, streams)| load(name, streams)).collect()
}

/// A load of streams, each a list of keys as in an inline table of TOML; streams are separated by
/// semicolons.
pub(crate) fn load(name: &str, streams: &str) -> TuneLoad {
    let tables: Vec<String> =
        streams.split(';').map(|keys| format!("{{ {} }}", keys.trim())).collect();
    let text = format!("stream = [{}]", tables.join(", "));
    let file = WorkloadFile::from_toml(name, &text)
        .unwrap_or_else(|error| panic!("load {name} is no workload: {error}"));
    TuneLoad { name: name.to_string(), file: Arc::new(file) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_load_is_a_workload_with_a_name_of_its_own() {
        let loads = loads();
        for (place, load) in loads.iter().enumerate() {
            assert!(loads[..place].iter().all(|other| other.name != load.name), "{}", load.name);
            assert!(!load.file.takes_depth(), "{} sets its clients", load.name);
        }
    }
}
