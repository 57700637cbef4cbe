//! The layers of this crate: a module imports modules of its own layer or below, never above, and
//! the files import each other without a cycle.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The layers from the bottom, with the modules of the crate's root in each.
const LAYERS: &[&[&str]] = &[
    &[
        "buffer",
        "clock",
        "drive_identity",
        "files",
        "lateness",
        "locator",
        "new_files",
        "notifier",
        "request",
        "service_parts",
        "shingling",
        "snapshot",
        "sync",
        "sys",
    ],
    &["block_device", "kernel_settings", "nbd_error", "power", "sidecar"],
    &["map_file", "model", "open_error", "options", "profile", "shared_map", "tuning"],
    &["backend"],
    &["characterize", "engine"],
    &["drive"],
];

#[test]
fn a_module_imports_only_its_own_layer_and_those_below() {
    let layer_of = |module: &str| {
        let root = module.split('/').next().unwrap_or_default();
        LAYERS.iter().position(|layer| layer.contains(&root)).unwrap_or_else(|| {
            panic!("module {root} has no layer; add it to LAYERS in tests/layers.rs")
        })
    };
    for (module, imports) in imports() {
        for import in imports {
            assert!(
                layer_of(&import) <= layer_of(&module),
                "{module} (layer {}) imports {import} (layer {}); move what it needs down",
                layer_of(&module) + 1,
                layer_of(&import) + 1
            );
        }
    }
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let mut left = imports();
    loop {
        let free: Vec<String> = left
            .iter()
            .filter(|(_, imports)| imports.iter().all(|import| !left.contains_key(import)))
            .map(|(module, _)| module.clone())
            .collect();
        if free.is_empty() {
            break;
        }
        free.iter().for_each(|module| drop(left.remove(module)));
    }
    assert!(left.is_empty(), "an import cycle is among {:#?}", left.keys().collect::<Vec<_>>());
}

#[test]
fn imports_are_found_in_groups_and_beside_super() {
    let text = "use super::b::C;\nuse crate::{a, d::{e::F, G}};\nfn f() { crate::h::i() }";
    let found: BTreeSet<String> =
        paths(text, "x/y").into_iter().map(|path| path.join("/")).collect();
    let expected = ["a", "d/G", "d/e/F", "h/i", "x/b/C"];
    assert_eq!(found, expected.map(str::to_owned).into());
}

/// The modules and the modules that each imports, named by their files below `src`.
fn imports() -> BTreeMap<String, BTreeSet<String>> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut texts = BTreeMap::new();
    collect(&source, &source, &mut texts);
    texts.remove("lib");
    let module_of = |path: &[String]| {
        (1..=path.len()).rev().map(|len| path[..len].join("/")).find(|m| texts.contains_key(m))
    };
    let imports_of = |module: &String, text: &String| {
        let imported = paths(text, module);
        imported.iter().filter_map(|path| module_of(path)).filter(|m| m != module).collect()
    };
    texts.iter().map(|(module, text)| (module.clone(), imports_of(module, text))).collect()
}

fn collect(root: &Path, folder: &Path, texts: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(folder).expect("the sources are readable") {
        let path: PathBuf = entry.expect("the sources are readable").path();
        if path.is_dir() {
            collect(root, &path, texts);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && path.file_stem().is_some_and(|stem| stem != "tests")
        {
            let module = path.strip_prefix(root).expect("below the root").with_extension("");
            let module = module.to_string_lossy();
            let text = std::fs::read_to_string(&path).expect("the sources are readable");
            texts.insert(module.strip_suffix("/mod").unwrap_or(&module).to_owned(), text);
        }
    }
}

/// The paths below the crate's root that a module names, outside of comments and its tests.
fn paths(text: &str, module: &str) -> Vec<Vec<String>> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code: String = code
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default().to_owned() + " ")
        .collect();
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            if code[..at].ends_with(|before: char| before.is_alphanumeric() || before == ':') {
                continue;
            }
            let mut parent: Vec<String> = module.split('/').map(str::to_owned).collect();
            match start {
                "crate::" => parent.clear(),
                _ => drop(parent.pop()),
            }
            expand(&mut code[at + start.len()..].chars().peekable(), parent, &mut found);
        }
    }
    found
}

/// Reads one path or, after `{`, a group of paths.
fn expand(
    code: &mut std::iter::Peekable<std::str::Chars<'_>>,
    mut path: Vec<String>,
    found: &mut Vec<Vec<String>>,
) {
    loop {
        while code.next_if(|c| c.is_whitespace() || *c == ':').is_some() {}
        if code.next_if_eq(&'{').is_some() {
            while code.peek().is_some_and(|c| *c != '}') {
                expand(code, path.clone(), found);
                while code.next_if(|c| c.is_whitespace() || *c == ',').is_some() {}
            }
            code.next();
            return;
        }
        let mut name = String::new();
        while let Some(c) = code.next_if(|c| c.is_alphanumeric() || *c == '_') {
            name.push(c);
        }
        if name == "super" {
            path.pop();
        } else if name.is_empty() {
            // A glob, or the end of a name.
            code.next_if_eq(&'*');
        } else if name != "self" {
            path.push(name);
        }
        if code.peek() != Some(&':') {
            found.push(path);
            return;
        }
    }
}
