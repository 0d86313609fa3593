"""What each kind of question asks of an answer."""

from __future__ import annotations

from collections.abc import Mapping

from vmemo.models import QueryType

BY_TYPE: Mapping[QueryType, str] = {
    "temporal": """Time matters in this question.
- When something happened counts, not when it was told. Where only a week, a month or a year is known, say just that, in
  the words of the memory ("the week before ...") where they are plain.
- If a length of time is asked for, name each event with its date in `steps`, then the length.""",
    "update": """This is a question about how things stand.
- In `steps`, list the values that were told with their dates, oldest first. The one told last holds.
- Name an earlier value only to say that it has changed.""",
    "count": """This is a question about a number, a sum or how often.
- If a memory states the number or the rate in so many words, that is it.
- Otherwise list in `steps` every single item that counts, each once with its mark, from all memories and not just the
  first few. Something told twice is one item. Only then count or add up.
- Say in the answer what was counted, and "at least" where memory is likely not to hold all of it.""",
    "multi-hop": """The answer needs several memories: a list that is gathered, or a chain.
- If a list is asked for, give everything that belongs to it, each thing once with its mark, from all memories.
- If one memory leads to the next by a person or thing, write the chain in `steps`. If a link is missing, say which.""",
    "preference": """A taste or a suggestion is asked for.
- If it is asked what someone likes, tell all that memory says of it, and say so if it says nothing.
- If a suggestion is wanted, build on what is known of likes, dislikes, plans, possessions and habits, and say on what.
  Don't decline for want of a ready answer: general knowledge may fill in the suggestion itself. Suggest nothing that
  goes against what is known.""",
    "assistant": """The question is about what you yourself said or did before.
- Go by the memories of your own words and acts. Repeat names, numbers and lists exactly as they were given.""",
    "factual": """Answer just what is asked, as exactly as memory tells it: names, places, titles and numbers in full.
If several things fit, give them all.""",
    "general": """Say what memory holds about this, the most telling first.""",
}
"""Instructions for the model by the type of the question."""

RECKONED = """
- How far days lie from the question's day is computed beside each memory, and how far apart memories are, and in which
  order, under Times. Those numbers are right: copy them. Never count yourself, and never from any other day.
- "Speaks of" gives the days that a speaker's own words name: make sure that they are the event's."""
"""What is added where lengths of time were computed."""
