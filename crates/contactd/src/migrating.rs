//! Moves the store of a data directory into the database of a cluster.

use std::sync::Arc;

use contactd_cluster::{Migrated, Migration};
use contactd_core::{Clock, Observer, SystemClock};

use crate::actor;
use crate::config::Config;
use crate::control_server::Control;
use crate::data_dir::DataDir;
use crate::misuse::Misuse;
use crate::opening::Opened;
use crate::opening::{self, Purpose};
use crate::setting::{StoreAt, StoreText};

/// Moves it. The directory must not be served. Returns what was moved, the database, and the directory.
pub(crate) async fn migrate(
    config: Config,
    to: &StoreText,
    observer: Observer<'_>,
) -> anyhow::Result<(Migrated, String, String)> {
    if !matches!(config.store, StoreAt::DataDir) {
        return Err(Misuse("this moves the store of a data directory: leave --store out".to_owned()).into());
    }
    let url = match to.0.parse::<StoreAt>() {
        Ok(StoreAt::Database(url)) => url,
        Ok(StoreAt::DataDir) => return Err(Misuse("--to is the URL of a database".to_owned()).into()),
        Err(error) => return Err(Misuse(format!("--to: {error}")).into()),
    };
    DataDir::require(&config.data)?;
    let _alone = Control::claim(&DataDir::existing(&config.data))?;
    let (deadlines, data) = (config.cluster.deadlines(), config.data.clone());
    let opened = Opened::open(config, Purpose::Using).await?;
    let database = Arc::new(opening::connect(&url, deadlines, Purpose::Using, true).await?);
    database.use_keys(&opened.keys);
    let migration = Migration { files: opened.files()?, database, node: opened.node().to_owned() };
    let migrated = migration.run(&actor::of_this_process(), SystemClock.now(), observer).await?;
    Ok((migrated, format!("database {url}"), DataDir::existing(&data).shown()))
}
