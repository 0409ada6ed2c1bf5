//! A small disk, which can be full: a tmpfs of its own.

use std::fs::{File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tempfile::TempDir;

/// Where a server keeps its data. Unmounted when it is dropped.
pub(crate) struct Disk {
    folder: TempDir,
    is_mounted: bool,
}

impl Disk {
    /// A tmpfs of so many megabytes; or, without the full disk among the harm, a plain directory.
    pub(crate) fn new(megabytes: u32, is_small: bool) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("idem-soak.").tempdir()?;
        if is_small {
            let options = format!("size={megabytes}m,mode=0777");
            let path = folder.path().display().to_string();
            if !run_as_root(&["mount", "-t", "tmpfs", "-o", &options, "idem-soak", &path]) {
                bail!(
                    "cannot mount a tmpfs, which the full disk needs: run as root (in a container with CAP_SYS_ADMIN), or allow `sudo -n mount`, or leave that harm out with --without-full-disk"
                );
            }
        }
        if !is_small {
            // A server runs as a user of its own.
            let everybody = <Permissions as PermissionsExt>::from_mode(0o755);
            std::fs::set_permissions(folder.path(), everybody)?;
        }
        std::fs::create_dir(folder.path().join("data"))?;
        Ok(Self {
            folder,
            is_mounted: is_small,
        })
    }

    /// An empty directory on it.
    pub(crate) fn directory(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Beside the directory.
    pub(crate) fn filler(&self) -> PathBuf {
        self.folder.path().join("filler")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.is_mounted {
            let path = self.folder.path().display().to_string();
            // Lazily, should a process of a server that was killed still be there.
            run_as_root(&["umount", "--lazy", &path]);
        }
    }
}

/// How long it may take to fill the disk.
const PATIENCE: Duration = Duration::from_secs(20);

/// Takes all the room there is, and then what becomes free, for so long. Returns whether there was none left.
pub(crate) fn fill(filler: &Path, time: Duration) -> anyhow::Result<bool> {
    let mut file = File::create(filler).context("no filler")?;
    let zeros = vec![0; 1 << 20];
    let end = Instant::now() + PATIENCE;
    while file.write_all(&zeros).is_ok() && Instant::now() < end {}
    let full = Instant::now();
    let mut is_full = false;
    while full.elapsed() < time {
        // The last pages, also those that the server has given back meanwhile.
        while file.write_all(&zeros[..4096]).is_ok() {}
        is_full = true;
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(file);
    std::fs::remove_file(filler)?;
    Ok(is_full)
}

/// Goes on in a space of mounts of this process's own, if this is root: a disk is gone then also when this process is killed.
pub(crate) fn keep_mounts_private() {
    const IS_PRIVATE: &str = "IDEM_SOAK_MOUNTS_ARE_PRIVATE";
    let unshare = ["unshare", "--mount", "--propagation", "private"];
    let is_root = rustix::process::geteuid().is_root();
    if !is_root
        || std::env::var_os(IS_PRIVATE).is_some()
        || !succeeds(&[&unshare[..], &["true"]].concat())
    {
        return;
    }
    if let Ok(program) = std::env::current_exe() {
        // Comes back only if it fails.
        let _ = Command::new(unshare[0])
            .args(&unshare[1..])
            .arg(program)
            .args(std::env::args_os().skip(1))
            .env(IS_PRIVATE, "1")
            .exec();
    }
}

fn succeeds(words: &[&str]) -> bool {
    Command::new(words[0])
        .args(&words[1..])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn run_as_root(words: &[&str]) -> bool {
    succeeds(words) || succeeds(&[&["sudo", "-n"], words].concat())
}
