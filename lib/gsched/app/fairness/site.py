"""What the daemon's policies take of the site: quotas, worth of GPUs, rules for deadlines."""

from __future__ import annotations

import logging

from gsched.app.fairness.quotas import quotas_of
from gsched.config.settings import Settings
from gsched.errors import TryAgainError, UnavailableError
from gsched.model.accounts import SiteQuotas
from gsched.model.targets import TargetRules
from gsched.policy.registry import SiteFacts, takes
from gsched.slurm.client import SlurmClient
from gsched_sql import History

log = logging.getLogger("gsched.daemon")


def site_facts(
    settings: Settings, client: SlurmClient, history: History, cluster: str
) -> SiteFacts:
    """What the policies in use take. Slurm is asked for quotas only where one of them wants them.

    Where slurmdbd does not answer, those that the daemon noted last are taken, with the worths by
    which they are counted. Raises what `quotas_of` raises, and ConfigError for a policy that there
    is not.
    """
    if not takes_quotas(settings):
        return facts_by(settings, None)
    try:
        return facts_by(settings, quotas_of(settings, client))
    except (UnavailableError, TryAgainError) as error:
        noted = noted_quotas(history, cluster)
        if noted is None:
            raise
        log.warning("quotas are those that were noted last: %s", error.message)
        return SiteFacts(noted.gpus or None, noted.gpu_weights, target_rules(settings))


def takes_quotas(settings: Settings) -> bool:
    """Whether a policy in use goes by quotas. Raises ConfigError for one that there is not."""
    daemon = settings.daemon
    return "quotas" in takes((daemon.policy, *daemon.policy_scope.values()))


def facts_by(settings: Settings, quotas: SiteQuotas | None) -> SiteFacts:
    """By quotas that are known; None: all tenants have equal ones."""
    gpus = dict(quotas.gpus) if quotas is not None else {}
    return SiteFacts(gpus or None, settings.fairness.gpu_weights, target_rules(settings))


def target_rules(settings: Settings) -> TargetRules:
    """Who may have deadlines promised, and how many of them."""
    told = settings.deadlines
    return TargetRules(
        users=frozenset(told.users),
        accounts=frozenset(told.accounts),
        qos=frozenset(told.qos),
        max_per_user=told.max_per_user,
        max_gpu_hours_per_user=told.max_gpu_hours_per_user,
        max_horizon_s=told.max_horizon_s,
        max_share=told.max_share,
    )


def noted_quotas(history: History, cluster: str) -> SiteQuotas | None:
    """The quotas that the daemon noted last; None where it never has."""
    ledger = history.fairness()
    newest = {change.tenant: change for change in ledger.quotas(cluster)}
    if not newest:
        return None
    source = max(newest.values(), key=lambda change: change.since_time).source
    gpus = {name: change.gpus for name, change in newest.items() if change.gpus}
    worths = {change.gpu_type: change.weight for change in ledger.weights(cluster)}
    return SiteQuotas({} if source == "equal" else gpus, sum(gpus.values()), source, worths)
