"""Replaces half of the generated texts with text that looks like a profile URL, because random text hardly ever does."""

import itertools

import schemathesis
from hypothesis import strategies as st

PROFILE_URLS = st.one_of(
    # In the store, and one that is refused
    st.sampled_from([
        "https://www.linkedin.com/in/ada-quell-1a2b3c",
        "https://www.xing.com/profile/Mira_Quellbach2",
        "https://www.linkedin.com/company/quellcorp",
    ]),
    # Not in the store
    st.from_regex(r"https://(www\.)?(linkedin\.com/in|xing\.com/profile)/[A-Za-z]{3}[a-z0-9]{1,30}", fullmatch=True),
    # Anything at all after the host
    st.from_regex(r"https?://([a-z]{2,3}\.)?(linkedin\.com/in|xing\.com/profile)/.{1,40}([/?#].{0,20})?", fullmatch=True),
)


@schemathesis.hook
def flatmap_body(context, body):
    if isinstance(body, dict) and isinstance(body.get("profileUrl"), str):
        return st.just(body) | PROFILE_URLS.map(lambda url: {**body, "profileUrl": url})
    if isinstance(body, dict) and isinstance(body.get("lookups"), list):
        return st.just(body) | st.lists(PROFILE_URLS, min_size=1).map(lambda urls: {**body, "lookups": [
            {**lookup, "profileUrl": url} if isinstance(lookup, dict) else lookup for lookup, url in zip(body["lookups"], itertools.cycle(urls))]})
    return st.just(body)
