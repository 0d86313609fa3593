"""What each kind of question asks of an answer."""

from __future__ import annotations

from collections.abc import Mapping

from vmemo.models import QueryType

BY_TYPE: Mapping[QueryType, str] = {
    "temporal": """This is a question about time.
- The days that each memory speaks of, and their distance from the question's day, are computed for you beside it, and
  distances between memories stand under Times. They are right: copy them. Never count yourself, and never count from
  any other day than the question's.
- In `steps`, name each event with its date, then the distance that answers the question.
- When something happened counts, not when it was told. "Speaks of" gives the days that a speaker's own words name: make
  sure that they are the event's. Where only a month or a year is known, say just that.""",
    "update": """This is a question about how things stand.
- In `steps`, list the values that were told with their dates, oldest first. The one told last holds.
- Name an earlier value only to say that it has changed.""",
    "count": """This is a question about a number or a sum.
- In `steps`, list every single item that counts, each once with its mark, from all memories and not just the first
  few. Something told twice is one item. Only then count or add up.
- Say in the answer what was counted. If memory may not hold all of it, say "at least".""",
    "multi-hop": """The answer joins several memories.
- In `steps`, follow the chain: what one memory says of a person or thing leads to the next, each with its mark.
- If a link is missing, look for it; if it is not to be found, say which one is missing.""",
    "preference": """Advice or taste is asked for.
- Build on what memory tells of likes, dislikes, plans, possessions and habits, and say what you build on.
- Don't decline because memory names no ready answer: what is known of the person is enough for a fitting proposal,
  and your general knowledge may fill it in. Propose nothing that goes against what is known.""",
    "assistant": """The question is about what you yourself said or did before.
- Go by the memories of your own words and acts. Repeat names, numbers and lists exactly as they were given.""",
    "factual": """Give the one answer that is asked for, as exactly as memory tells it: names, places, titles and
numbers in full.""",
    "general": """Say what memory holds about this, the most telling first.""",
}
"""Instructions for the model by the type of the question."""
