"""Which validator judges which provider's parts."""

import importlib

from common import Invalid

MODULES = {
    "ga4": "ga4", "mixpanel": "mixpanel", "mixpanel-profiles": "mixpanel_profiles", "amplitude": "amplitude",
    "segment": "segment", "posthog": "posthog", "snowplow": "snowplow", "flurry": "flurry", "csv": "csv_rows",
    "syslog": "syslog_lines", "journald": "journal_export",
}


def validator(provider):
    """A module with `records(part)`, `check(record, as_of)`, `event_count(record)` and `check_request(part)`."""
    return importlib.import_module(MODULES[provider])


def problems_of(provider, record, as_of=None):
    """What is wrong with a record, whatever its bytes are."""
    try:
        return validator(provider).check(record, as_of)
    except Invalid as error:
        return [str(error)]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return [f"of another shape: {type(error).__name__} {error}"]
