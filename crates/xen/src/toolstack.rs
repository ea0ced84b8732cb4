//! Domains and pools of pCPUs, by `xl`.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::error::Error;
use crate::store::Store;

/// What Xen calls a domain.
pub type DomainId = u16;

/// A paravirtualised domain that is to be made.
#[derive(Debug, Clone)]
pub struct NewDomain {
    /// Its name.
    pub name: String,
    /// Its kernel, not packed.
    pub kernel: PathBuf,
    /// Its first file system.
    pub ramdisk: PathBuf,
    /// Its memory.
    pub memory_mib: u32,
    /// Its vCPUs.
    pub vcpus: u16,
    /// The command line of its kernel.
    pub command_line: String,
    /// The hardware address of its network interface, if it is to have one. Nothing sets that up in dom0.
    pub mac: Option<String>,
}

/// A domain that was made here; it is destroyed when this is dropped.
#[derive(Debug)]
pub struct Domain {
    /// What Xen calls it.
    pub id: DomainId,
    /// Its name.
    pub name: String,
}

impl Drop for Domain {
    fn drop(&mut self) {
        // Who can do nothing about it may find it in `xl list`.
        let _ = xl(&["destroy", &self.name]);
    }
}

/// The toolstack of this host.
#[derive(Debug)]
pub struct Toolstack;

impl Toolstack {
    /// Makes a domain, which starts.
    ///
    /// # Errors
    /// If `xl` refuses, or there is none.
    pub fn create(&self, new: &NewDomain) -> Result<Domain, Error> {
        let mut file = tempfile(&new.name)?;
        let mut text = format!(
            "type = \"pv\"\nname = \"{}\"\nkernel = \"{}\"\nramdisk = \"{}\"\nmemory = {}\nvcpus = {}\nextra = \"{}\"\n",
            new.name,
            new.kernel.display(),
            new.ramdisk.display(),
            new.memory_mib,
            new.vcpus,
            new.command_line,
        );
        if let Some(mac) = &new.mac {
            // Without a script `xl` would look for one that joins it to a bridge.
            let _ = writeln!(text, "vif = [\"mac={mac},script=/bin/true\"]");
        }
        file.write(&text)?;
        xl(&["create", "-q", &file.path.to_string_lossy()])?;
        let id = xl(&["domid", &new.name])?;
        let id = id.trim().parse().map_err(|_| Error::Command {
            command: format!("xl domid {}", new.name),
            says: format!("`{}`, which is no number", id.trim()),
        })?;
        Ok(Domain { id, name: new.name.clone() })
    }

    /// Tells the back end of a domain's network interface that the interface is set up in dom0; gives what it is called there.
    ///
    /// # Errors
    /// If xenstore refuses.
    pub fn connect(&self, store: &mut Store, domain: &Domain) -> Result<String, Error> {
        let id = domain.id;
        store.write(&format!("/local/domain/0/backend/vif/{id}/0/hotplug-status"), "connected")?;
        Ok(format!("vif{id}.0"))
    }

    /// Runs `xl` with these arguments; gives what it prints.
    ///
    /// # Errors
    /// If it refuses, or there is none.
    pub fn xl(&self, arguments: &[&str]) -> Result<String, Error> {
        xl(arguments)
    }
}

fn xl(arguments: &[&str]) -> Result<String, Error> {
    let command = format!("xl {}", arguments.join(" "));
    let failed = |says: String| Error::Command { command: command.clone(), says };
    let ran = Command::new("xl").args(arguments).stdin(Stdio::null()).output();
    let ran = ran.map_err(|error| failed(error.to_string()))?;
    if !ran.status.success() {
        let says = String::from_utf8_lossy(&ran.stderr);
        return Err(failed(format!("{}: {}", ran.status, says.trim())));
    }
    Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
}

/// A file for `xl`, which is removed when this is dropped.
struct ConfigFile {
    path: PathBuf,
}

fn tempfile(name: &str) -> Result<ConfigFile, Error> {
    Ok(ConfigFile { path: std::env::temp_dir().join(format!("{name}-{}.cfg", std::process::id())) })
}

impl ConfigFile {
    fn write(&mut self, text: &str) -> Result<(), Error> {
        fs::write(&self.path, text).map_err(|source| Error::Device {
            what: "cannot write",
            path: self.path.clone(),
            source,
        })
    }
}

impl Drop for ConfigFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
