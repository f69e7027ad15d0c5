//! Tokens that reproduce a failure:
//! `CAIRN_REPRO=crash:v1:engine=toy:work=free:seed=0x5e1f:ops=400:at=173:model=blocks/9:nest=12.3`.

use std::fmt;
use std::str::FromStr;

use cairn_sim::{CrashModel, Fault};
use cairn_types::{Error, Result};

/// A run with its crash or fault, if any. Valid for the commit that printed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The kind of engine.
    pub engine: String,
    /// The workload.
    pub workload: String,
    /// The named option set, if any.
    pub set: Option<String>,
    /// The seed of script and world.
    pub seed: u64,
    /// Number of operations of the script.
    pub ops: usize,
    /// The failed disk image; `None` if the run itself failed.
    pub crash: Option<CrashPoint>,
    /// The injected fault, if any.
    pub fault: Option<FaultPoint>,
}

/// A fault in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultPoint {
    /// The number of the file operation.
    pub at: usize,
    /// The fault.
    pub fault: Fault,
    /// True if later operations fail too.
    pub lasting: bool,
}

/// A disk image that a crash could leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrashPoint {
    /// Number of completed file operations.
    pub at: usize,
    /// The crash model.
    pub model: CrashModel,
    /// The number of the image within the model.
    pub image: usize,
    /// A crash of the recovery from that image, under the same model: the number of completed file
    /// operations, and the number of the image.
    pub nested: Option<(usize, usize)>,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match (&self.crash, &self.fault) {
            (Some(_), _) => "crash",
            (None, Some(_)) => "fault",
            (None, None) => "meta",
        };
        let Token {
            engine,
            workload,
            set,
            seed,
            ops,
            ..
        } = self;
        let set = set
            .as_ref()
            .map_or_else(String::new, |set| format!(":set={set}"));
        write!(
            f,
            "CAIRN_REPRO={kind}:v1:engine={engine}:work={workload}{set}:seed={seed:#x}:ops={ops}"
        )?;
        if let Some(FaultPoint { at, fault, lasting }) = &self.fault {
            let lasting = if *lasting { "lasting" } else { "once" };
            write!(f, ":at={at}:fault={fault}/{lasting}")?;
        }
        let Some(crash) = &self.crash else {
            return Ok(());
        };
        write!(f, ":at={}:model={}/{}", crash.at, crash.model, crash.image)?;
        match crash.nested {
            Some((at, image)) => write!(f, ":nest={at}.{image}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Token {
    type Err = Error;

    fn from_str(text: &str) -> Result<Token> {
        let wrong = |what: &str| Error::invalid_argument(format!("{what} in token {text:?}"));
        let body = text.trim().trim_start_matches("CAIRN_REPRO=");
        let mut parts = body.split(':');
        let kind = parts.next().unwrap_or("");
        if parts.next() != Some("v1") || !["crash", "fault", "meta"].contains(&kind) {
            return Err(wrong("unknown kind or version"));
        }
        let part = |name: &str| {
            let mut all = body.split(':');
            all.find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
        };
        let needed = |name: &str| part(name).ok_or_else(|| wrong(&format!("no {name}")));
        let number = |text: &str| -> Result<u64> {
            let parsed = match text.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16),
                None => text.parse(),
            };
            parsed.map_err(|_| wrong("no number"))
        };
        let pair = |text: &str, between: char| -> Result<(String, usize)> {
            let (left, right) = text.split_once(between).ok_or_else(|| wrong("no pair"))?;
            Ok((left.to_owned(), number(right)? as usize))
        };
        let crash = if kind == "crash" {
            let (model, image) = pair(needed("model")?, '/')?;
            let nested = match part("nest") {
                Some(nest) => {
                    let (at, image) = pair(nest, '.')?;
                    Some((number(&at)? as usize, image))
                }
                None => None,
            };
            Some(CrashPoint {
                at: number(needed("at")?)? as usize,
                model: model.parse()?,
                image,
                nested,
            })
        } else {
            None
        };
        let fault = match kind {
            "fault" => {
                let (fault, lasting) = needed("fault")?
                    .split_once('/')
                    .ok_or_else(|| wrong("no pair"))?;
                Some(FaultPoint {
                    at: number(needed("at")?)? as usize,
                    fault: fault.parse()?,
                    lasting: lasting == "lasting",
                })
            }
            _ => None,
        };
        Ok(Token {
            fault,
            engine: needed("engine")?.to_owned(),
            workload: needed("work")?.to_owned(),
            set: part("set").map(str::to_owned),
            seed: number(needed("seed")?)?,
            ops: number(needed("ops")?)? as usize,
            crash,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_round_trips_through_text() {
        for text in [
            "CAIRN_REPRO=meta:v1:engine=toy:work=free:set=eager:seed=0x5e1f:ops=400",
            "CAIRN_REPRO=fault:v1:engine=toy:work=free:seed=0x5e1f:ops=400:at=7:fault=eio/lasting",
            "CAIRN_REPRO=crash:v1:engine=toy:work=deep:seed=0x5e1f:ops=400:at=173:model=blocks/9",
            "CAIRN_REPRO=crash:v1:engine=toy:work=free:seed=0x1:ops=4:at=1:model=kill/0:nest=12.3",
        ] {
            assert_eq!(text.parse::<Token>().unwrap().to_string(), text);
        }
        assert!("CAIRN_REPRO=crash:v2:seed=1".parse::<Token>().is_err());
    }
}
