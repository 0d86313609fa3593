"""R2: conversations fall into episodes by topic, with the packaged encoder."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from vmemo.embedding.packaged import PackagedEmbedder
from vmemo.models.settings import Settings
from vmemo.retain.episodes import MessageVector, segment
from vmemo.text.temporal.annotation import embedded_text

NOON = datetime(2023, 5, 8, 12, tzinfo=UTC)
ENCODER = PackagedEmbedder()
CHANGING = {
    "trip then laptop": (
        (
            "We finally booked the flights to Lisbon for the second week of June.",
            "Nice! Did you find a place to stay in Alfama?",
            "Yes, a small flat with a balcony, ten minutes from the castle.",
            "I would take the tram up to the viewpoint on the first evening.",
            "Good idea, and we want to do a day trip to Sintra as well.",
        ),
        (
            "Ugh, now my laptop does not start any more, the screen stays black.",
            "Have you tried to hold the power button for thirty seconds?",
            "I did, the fan spins for a moment and then it shuts down again.",
            "That sounds like the battery or the mainboard.",
            "The repair shop says it will take a week and cost 200 euros.",
        ),
    ),
    "garden then job": (
        (
            "The tomatoes are finally turning red, I picked a whole bowl today.",
            "Lovely, did you use the compost from last year?",
            "Yes, and the slugs left them alone this time.",
            "My courgettes are growing like mad as well.",
        ),
        (
            "By the way, I have a second interview at the hospital on Thursday.",
            "Oh great! Is that the nursing position in the children's ward?",
            "Exactly. They want to talk about shifts and salary.",
            "Ask them about training, they pay for courses.",
        ),
    ),
    "dog then taxes": (
        (
            "Bruno ate a whole sock last night and we had to go to the vet.",
            "Oh no, is he all right?",
            "They made him throw up and now he is just sulking.",
            "Dogs. Mine once swallowed a tennis ball.",
            "He gets only rice and chicken until Sunday.",
        ),
        (
            "Do you know when the tax return is due this year?",
            "End of July, unless you use an advisor.",
            "I still need the certificate from my bank and the receipts for the home office.",
            "You can deduct the internet bill as well.",
        ),
    ),
    "wedding then marathon": (
        (
            "We decided to have the wedding in the old barn near Brno.",
            "Beautiful! How many guests will you invite?",
            "About eighty, mostly family, and a band for the evening.",
            "Will your sister make the cake?",
            "She offered three layers with lemon cream.",
        ),
        (
            "I ran twenty kilometres yesterday, my longest run so far.",
            "Wow, the marathon is in six weeks, right?",
            "Yes, and my left knee hurts a little after fifteen kilometres.",
            "You should see a physio and buy new shoes.",
            "My plan says one rest day more this week.",
        ),
    ),
    "film then rent": (
        (
            "We saw the new Villeneuve film yesterday, the sound was incredible.",
            "I thought the second half was too long.",
            "Maybe, but the desert scenes in the cinema were stunning.",
            "The lead actress deserves an award.",
        ),
        (
            "My landlord wants to raise the rent by twelve percent from March.",
            "Can he do that? When was the last increase?",
            "Two years ago, the tenants' association will check the letter.",
            "Do not sign anything before they answer.",
            "I might have to look for a smaller flat.",
        ),
    ),
    "assistant: interview then plants": (
        (
            "Help me prepare for a product manager interview at a bank.",
            "Let us begin with your strengths: which product are you most proud of?",
            "A payment app that I launched with a team of six.",
            "Describe the problem, what you did and the result in numbers.",
        ),
        (
            "Why do the leaves of my monstera turn yellow?",
            "Most often because of too much water; let the soil dry before you water again.",
            "It stands in a dark corner.",
            "Move it closer to a window without direct sun.",
        ),
    ),
    "football then bread": (
        (
            "What a match, three goals in the last ten minutes!",
            "The keeper was terrible, honestly.",
            "If they win on Sunday they are through to the final.",
            "I have two tickets, do you want to come?",
        ),
        (
            "My sourdough starter finally doubles in four hours.",
            "Do you feed it with rye or wheat?",
            "Rye, and I bake in a cast iron pot.",
            "The crust of mine is always too soft.",
        ),
    ),
}
"""Conversations that change the topic, each topic a tuple of messages."""
UNCHANGED = {
    "trip with digressions": (
        (
            "We finally booked the flights to Lisbon for the second week of June.",
            "Nice! Did you find a place to stay in Alfama?",
            "Yes, a small flat with a balcony. Sorry, the phone, one moment.",
            "No problem.",
            "I am back. Where were we?",
            "The flat. Is it close to the castle?",
            "Ten minutes. We want to do a day trip to Sintra as well.",
            "Take the early train, it gets crowded.",
        ),
    ),
    "laptop": (
        (
            "My laptop does not start any more, the screen stays black.",
            "Have you tried to hold the power button for thirty seconds?",
            "I did, the fan spins for a moment and then it shuts down.",
            "Did you spill something on the keyboard?",
            "Only a little tea last week. It is raining cats and dogs here, by the way.",
            "Here too. Tea could have reached the mainboard.",
            "The repair shop says it will take a week.",
            "Back up the disk before you hand it in.",
        ),
    ),
    "wedding planning": (
        (
            "We decided to have the wedding in the old barn near Brno.",
            "Beautiful! How many guests will you invite?",
            "About eighty, mostly family.",
            "What about the food?",
            "A caterer from the village, and my aunt bakes the cake.",
            "And the music?",
            "A swing band until midnight, then a DJ.",
            "Have you found a dress?",
            "Yes, simple, ivory, with long sleeves.",
        ),
    ),
    "job search": (
        (
            "I have a second interview at the hospital on Thursday.",
            "Great! Is that the nursing position in the children's ward?",
            "Exactly. They want to talk about shifts and salary.",
            "My cousin works there, she likes the team.",
            "Really? What does she say about the night shifts?",
            "Four a month, and they are paid well.",
            "That would be fine with me.",
            "Ask them about training as well.",
        ),
    ),
    "assistant: essay": (
        (
            "Help me write an essay about the causes of the First World War.",
            "Sure. Begin with the alliances, the arms race and nationalism.",
            "How long should the introduction be?",
            "About a tenth of the text, with your thesis at its end.",
            "Which sources can I quote on the naval race?",
            "Look at Massie's Dreadnought and at Clark's Sleepwalkers.",
            "Can you suggest a thesis?",
            "The war was not inevitable, but a system without brakes made it likely.",
        ),
    ),
    "birthday": (
        (
            "What should we give Dad for his seventieth?",
            "He talks about a telescope all the time.",
            "They cost a fortune, but if everybody joins in it works.",
            "I ask Uncle Per and the cousins.",
            "Where do we celebrate? At home or in a restaurant?",
            "The garden, if the weather is good.",
            "I could make the potato salad.",
            "And I bring the tent, just in case.",
        ),
    ),
}
"""Conversations with one topic and remarks beside it."""


def episodes(messages: Sequence[str]) -> list[list[str]]:
    texts = [embedded_text(f"{('Maya', 'Jon')[number % 2]}: {text}", NOON) for number, text in enumerate(messages)]
    vectors = asyncio.run(ENCODER.embed(texts, "document"))
    lines = [MessageVector(NOON + timedelta(minutes=number), vector) for number, vector in enumerate(vectors)]
    return [[messages[i] for i in group] for group in segment(lines, Settings())]


@pytest.mark.parametrize("topics", CHANGING.values(), ids=CHANGING.keys())
def test_a_change_of_topic_begins_an_episode(topics: Sequence[Sequence[str]]) -> None:
    assert episodes([text for topic in topics for text in topic]) == [list(topic) for topic in topics]


@pytest.mark.parametrize("topics", UNCHANGED.values(), ids=UNCHANGED.keys())
def test_one_topic_with_remarks_beside_it_stays_one_episode(topics: Sequence[Sequence[str]]) -> None:
    (messages,) = topics
    assert episodes(messages) == [list(messages)]


def test_a_topic_that_is_taken_up_again_is_one_episode() -> None:
    trip, laptop = CHANGING["trip then laptop"]
    assert episodes([*trip[:3], *laptop, *trip[3:]]) == [list(trip), list(laptop)]
