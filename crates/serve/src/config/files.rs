//! The files of a configuration: the named one, and those in `conf.d` beside it.

use std::io;
use std::path::{Path, PathBuf};

use headtime_config::TextErrors;

use super::{Config, SERVER_KEYS, keys};

/// The directory beside the configuration file whose files are read before it.
const SHARED_DIRECTORY: &str = "conf.d";

/// The files of a configuration in the order in which they are read: `conf.d/*.toml` beside `file`
/// by name, then `file`.
///
/// # Errors
/// The directory exists and cannot be read.
pub fn config_files(file: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = match std::fs::read_dir(file.with_file_name(SHARED_DIRECTORY)) {
        Ok(entries) => {
            let paths = entries.map(|entry| entry.map(|entry| entry.path()));
            paths.collect::<io::Result<Vec<PathBuf>>>()?
        }
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Vec::new()
        }
        Err(error) => return Err(error),
    };
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    files.push(file.to_path_buf());
    Ok(files)
}

impl Config {
    /// Reads texts of TOML files, each with the file's name for errors. A key replaces the same key
    /// of an earlier file; volumes, scans and clients are added.
    ///
    /// # Errors
    /// All errors of the texts, each with line and column. [`Config::check`] finds what is missing.
    pub fn from_texts<'t>(
        texts: impl IntoIterator<Item = (&'t str, &'t str)>,
    ) -> Result<Self, TextErrors> {
        let mut config = Self::default();
        let mut errors = Vec::new();
        for (name, text) in texts {
            let earlier = std::mem::take(&mut config.listen);
            let tables = [SERVER_KEYS, keys::SECTIONS, keys::ALIASES];
            let read = headtime_config::read(name, text, &mut config, &tables);
            errors.extend(read.err().iter().flat_map(|found| found.errors().to_vec()));
            if config.listen.is_empty() {
                config.listen = earlier;
            }
        }
        TextErrors::check(errors)?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_directory_come_first_and_the_named_file_overrides_them() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::create_dir(at("conf.d")).unwrap();
        for name in ["conf.d/20-b.toml", "conf.d/10-a.toml", "conf.d/readme.txt", "nas.toml"] {
            std::fs::write(at(name), "").unwrap();
        }
        let expected = ["conf.d/10-a.toml", "conf.d/20-b.toml", "nas.toml"].map(at).to_vec();
        assert_eq!(config_files(&at("nas.toml")).unwrap(), expected);
        let alone = at("conf.d/10-a.toml");
        assert_eq!(config_files(&alone).unwrap(), [alone]);

        let config = Config::from_texts([
            ("a.toml", "listen = [\"unix:/a\"]\n[limits]\nconnections = 7\nmemory = \"64MiB\""),
            ("b.toml", "policy = \"fcfs\"\n[[volume]]\nname = \"b\""),
            ("c.toml", "listen = [\"unix:/c\"]\n[limits]\nconnections = 9\n[[volume]]\nname=\"c\""),
        ])
        .unwrap();
        assert_eq!((config.limits.connections, config.limits.memory.get()), (9, 64 << 20));
        assert_eq!((config.policy.name(), config.volumes.len()), ("fcfs", 2));
        assert_eq!(config.listen.len(), 1);
        assert_eq!(config.listen[0].to_string(), "unix:/c");
    }

    #[test]
    fn errors_of_all_files_are_reported_and_a_volume_belongs_to_one_file() {
        let volume = "[[volume]]\nname = \"a\"";
        let texts = [("a.toml", "polcy = \"fcfs\""), ("b.toml", volume), ("c.toml", volume)];
        let errors = Config::from_texts(texts).unwrap_err().to_string();
        assert!(errors.contains("a.toml:1:1: unknown key `polcy`"), "{errors}");
        assert!(errors.contains("c.toml:2:8: volume a appears twice"), "{errors}");
    }
}
