"""Replaces half of the generated texts with some that name a person, a time or a limit, because random text hardly ever does."""

import schemathesis
from hypothesis import strategies as st

LIKELY = {
    "q": ["https://www.linkedin.com/in/ada-quell-1a2b3c", "nobody@example.com", "+14155550199", "https://www.linkedin.com/company/quellcorp"],
    "profileUrl": ["https://www.linkedin.com/in/ada-quell-1a2b3c", "https://www.xing.com/profile/Mira_Quellbach2"],
    "expires": ["90d", "never", "1h"],
    "rate": ["50/s", "none"],
    "quota": ["1000/day", "none"],
    "overlap": ["1h"],
    "since": ["30d", "2026-01-01"],
    "until": ["2030-01-01"],
    "name": ["shop", "uwe"],
}


@schemathesis.hook
def flatmap_body(context, body):
    if not isinstance(body, dict):
        return st.just(body)
    # An empty or a long text may be meant to be refused.
    likely = {name: st.sampled_from(LIKELY[name]) for name, value in body.items() if name in LIKELY and isinstance(value, str) and 0 < len(value) <= 60}
    return st.just(body) | st.fixed_dictionaries(likely).map(lambda known: {**body, **known})
