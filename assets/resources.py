"""What asset bodies need from outside, as Dagster resources."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
from dagster_pyspark import LazyPySparkResource

from perdix.settings.home import Home, conf_folder, conf_part
from perdix.settings.product import ProductSettings, load_product_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from perdix.control.job_files import JobFiles
    from perdix.models.registry import Registry
    from perdix.telemetry.lake import Lake


class Workspace(dg.ConfigurableResource):
    """The perdix home, the configuration, and what is opened from them."""

    home: str = ""  # empty: PERDIX_HOME
    conf: str = ""  # empty: PERDIX_CONF, else as conf_folder says

    def paths(self) -> Home:
        """Return the layout of the home folder."""
        return (Home(Path(self.home).resolve()) if self.home else Home.from_environment()).make()

    def conf_folder(self) -> Path:
        """Return the folder of configuration."""
        return Path(self.conf) if self.conf else conf_folder()

    def conf_part(self, name: str) -> Path:
        """Return a folder of the configuration, or the one that comes with perdix."""
        return conf_part(name, self.conf_folder())

    def settings(self) -> ProductSettings:
        """Return the product settings."""
        return load_product_settings(self.conf_folder() / "perdix.yaml")

    def stream_jobs(self) -> "JobFiles":
        """Return every job that has a usable file, and what is wrong with the other files."""
        from perdix.control.job_files import stream_jobs  # imports that an ingest of exports need not pay

        return stream_jobs(self.paths(), self.conf_folder())

    def lake(self) -> "Lake":
        """Open the lake."""
        from perdix.telemetry.lake import Lake

        return Lake(self.paths().lake)

    def registry(self) -> "Registry":
        """Open the model registry, creating the embedded one on first use."""
        from perdix.models.registry import prepare

        return prepare(self.paths(), os.environ.get("PERDIX_MLFLOW_UI"))


class Spark(dg.ConfigurableResource):
    """A Spark session, started on first use with the interpreter and the Java that perdix found."""

    workspace: dg.ResourceDependency[Workspace]

    def session(self) -> "SparkSession":
        """Return the session of this process.

        Raises ``NoJava`` when the machine has none, and ``ClusterError`` when a cluster does not answer, or runs
        nothing within a minute.
        """
        from perdix.telemetry.spark.cluster import is_local, require_tasks
        from perdix.telemetry.spark.session import prepare_environment, spark_conf

        home, settings = self.workspace.paths(), self.workspace.settings().spark
        prepare_environment(home, settings.master)
        conf = {**spark_conf(settings.master, home), **settings.conf}
        session = LazyPySparkResource(spark_config=conf).spark_session
        if not is_local(settings.master):
            require_tasks(session)
        return session
