"""The splits of the sentences world: what each promises, on the very world that is shipped."""

import hashlib
import re
from collections import Counter

import pytest

from regard.core.errors import ConfigError
from regard.data.records import Pair
from regard.data.worlds import lexicon
from regard.data.worlds.sentences import LONGEST, SPLITS, build_sentences
from regard.text import words

GOLDEN = "2b4330b7533e43a9e52e3825eb9f323de72e660f24bde3810638b1fe22d0b7b4"
"""SHA-256 of the default world. If it changes on purpose, scores of old runs do not compare."""

TESTS = SPLITS[1:]
NOUNS = {
    form: noun
    for several in (
        lexicon.ANIMALS,
        lexicon.HUMANS,
        lexicon.ROADS,
        lexicon.PLACES,
        lexicon.FOODS,
        lexicon.LOADS,
        lexicon.PARTS,
    )
    for noun in several
    for form in (noun.en, noun.en_plural)
}
ADJECTIVES = {a.en for a in lexicon.DECISIVE + lexicon.NEUTRAL}


@pytest.fixture(scope="module")
def splits():
    return build_sentences()


@pytest.fixture(scope="module")
def small():
    return build_sentences(seed=3, n_train=2_000)


def fingerprint(splits):
    digest = hashlib.sha256()
    for name, pairs in splits.items():
        for p in pairs:
            told = (name, p.source, p.target, p.alignment, p.antecedents, p.target_antecedents)
            digest.update(repr((*told, sorted(p.tags))).encode())
    return digest.hexdigest()


def minimal_pairs(pairs):
    return list(zip(pairs[::2], pairs[1::2], strict=True))


def test_the_default_world_is_the_same_on_every_machine(splits):
    assert fingerprint(splits) == GOLDEN


def test_the_same_seed_gives_the_same_world_and_another_seed_another(small):
    assert fingerprint(build_sentences(seed=3, n_train=2_000)) == fingerprint(small)
    other = build_sentences(seed=4, n_train=2_000)
    shared = {p.source for p in other["train"]} & {p.source for p in small["train"]}
    assert len(shared) < 500


def test_sizes(splits):
    assert {name: len(pairs) for name, pairs in splits.items()} == {
        "train": 60_000,
        "valid": 1_000,
        "test": 1_000,
        "pronouns": 500,
        "order": 300,
        "long": 300,
    }
    assert tuple(splits) == SPLITS


def test_more_than_a_hundred_thousand_pairs_and_all_with_one_reference_each_way():
    pairs = [p for several in build_sentences(seed=1, n_train=110_000).values() for p in several]
    assert len(pairs) > 110_000
    assert len({p.source for p in pairs}) == len({p.target for p in pairs}) == len(pairs)


@pytest.mark.parametrize("world", ["splits", "small"])
def test_no_sentence_of_either_language_is_there_twice(world, request):
    pairs = [p for several in request.getfixturevalue(world).values() for p in several]
    assert len({p.source for p in pairs}) == len(pairs)
    assert len({p.target for p in pairs}) == len(pairs)


@pytest.mark.parametrize(
    ("split", "source", "target"),
    [
        (
            "pronouns",
            "the animal did not cross the street because it was too tired",
            "l'animal n'a pas traversé la rue parce qu'il était trop fatigué",
        ),
        (
            "pronouns",
            "the animal did not cross the street because it was too wide",
            "l'animal n'a pas traversé la rue parce qu'elle était trop large",
        ),
        ("order", "john loves mary", "john aime mary"),
        ("order", "mary loves john", "mary aime john"),
        ("test", "jane visits africa in september", "jane visite l'afrique en septembre"),
        ("test", "i am a student", "je suis étudiant"),
    ],
)
@pytest.mark.parametrize("world", ["splits", "small"])
def test_the_sentences_of_the_lectures_are_in_their_test_sets(
    world, split, source, target, request
):
    assert (source, target) in {(p.source, p.target) for p in request.getfixturevalue(world)[split]}


def test_at_least_three_hundred_word_forms_a_side(splits):
    for side in ("source", "target"):
        forms = {w for p in splits["train"] for w in words.split(getattr(p, side))}
        assert len(forms) >= 300


@pytest.mark.parametrize("world", ["splits", "small"])
@pytest.mark.parametrize("side", ["source", "target"])
def test_training_shows_every_word_of_the_test_sets(world, side, request):
    splits = request.getfixturevalue(world)
    known = {w for p in splits["train"] for w in words.split(getattr(p, side))}
    for name in TESTS:
        assert {w for p in splits[name] for w in words.split(getattr(p, side))} <= known


def test_sentences_are_lower_case_and_survive_splitting_and_joining(splits):
    for pairs in splits.values():
        for sentence in (s for p in pairs for s in (p.source, p.target)):
            assert sentence == sentence.lower()
            assert words.join(words.split(sentence)) == sentence
            assert not set(sentence) & set(".,;:!?")


_VOWEL = "(?:[aeiouyâéèêîôûœ]|h(?!érisson))"


@pytest.mark.parametrize(
    "wrong",
    [
        rf"\b(?:le|la|de|ne|que|je|ce|ma|beau|nouveau) {_VOWEL}",  # elision, liaison
        rf"\b(?:l'|d'|n'|qu'|j'|cet |bel |vieil |nouvel )(?!{_VOWEL})",
        r"\b(?:de|à) les? ",  # contraction
        r"\bdes (?:petit|grand|vie[iu]|beau|bel|nouv|jeune|long)\w*[sx] ",  # de grands chiens
        r"\bpas (?:vu|trouvé|mangé|acheté) (?:une?|des) ",  # pas de chat
        r"\b(?:aime|aimons|aiment|déteste|détestent) (?:pas )?des ",
        r"\bà la maison\b",  # would be: home
        r"\bvieilles? filles?\b|\bvieux garçons?\b",  # would be: spinster, bachelor
        r"\b(?:ma|mon|mes|notre|nos) (?:\w+ )?(?:femme|fille|homme|garçon|roi|reine)s?\b",
        r"\b(\w+') \b|  |^ | $",
    ],
)
def test_what_no_careful_reader_would_let_pass_is_not_there(splits, wrong):
    found = [p.target for ps in splits.values() for p in ps if re.search(wrong, p.target)]
    assert found == []


def test_nothing_indefinite_and_plural_is_the_object_of_a_negation(splits):
    for pairs in splits.values():
        for p in pairs:
            for clause in re.split(" and | because ", p.source):
                assert not re.search(r"\bnot\b.*\bsome\b", clause), p.source


def test_long_is_longer_than_all_of_training_on_both_sides(splits):
    for side in ("source", "target"):
        longest = max(len(words.split(getattr(p, side))) for p in splits["train"])
        assert longest <= LONGEST < min(len(words.split(getattr(p, side))) for p in splits["long"])


def test_only_words_without_a_counterpart_are_unlinked(splits):
    unlinked = {"source": set(), "target": set()}
    for pairs in splits.values():
        for p in pairs:
            for side, which in (("source", 0), ("target", 1)):
                said = words.split(getattr(p, side))
                linked = {link[which] for link in p.alignment}
                assert linked <= set(range(len(said)))
                unlinked[side] |= {w for i, w in enumerate(said) if i not in linked}
    assert unlinked == {"source": {"a", "do", "does"}, "target": {"le", "la", "l'", "dans"}}


def test_alignments_are_sorted_and_say_nothing_twice(splits):
    for pairs in splits.values():
        for p in pairs:
            assert list(p.alignment) == sorted(set(p.alignment))


def test_pronouns_and_antecedents_agree_in_both_languages(splits):
    seen = Counter()
    for pairs in splits.values():
        for p in pairs:
            source, target = words.split(p.source), words.split(p.target)
            for (pronoun, head), (pronom, tête) in zip(
                p.antecedents, p.target_antecedents, strict=True
            ):
                assert (pronoun, pronom) in p.alignment
                assert (head, tête) in p.alignment
                noun = NOUNS.get(source[head])
                if noun:
                    plural = source[head] == noun.en_plural
                    assert target[pronom] == ("elle" if noun.feminine else "il") + "s" * plural
                seen[source[pronoun]] += 1
    assert set(seen) == {"it", "they", "he", "she"}
    assert seen["it"] > 8_000


def test_every_because_has_its_antecedent(splits):
    for pairs in splits.values():
        for p in pairs:
            assert len(p.antecedents) == p.source.split().count("because")


def test_minimal_pairs_differ_in_the_adjective_alone_and_in_what_it_means(splits):
    for first, second in minimal_pairs(splits["pronouns"]):
        one, other = first.source.split(), second.source.split()
        assert one[:-1] == other[:-1]
        assert one[-1] != other[-1]
        assert first.antecedents != second.antecedents
        pronouns = [words.split(p.target)[p.target_antecedents[0][0]] for p in (first, second)]
        assert sorted(pronouns) == ["elle", "il"]


def test_order_holds_the_same_words_in_another_order_on_both_sides(splits):
    for first, second in minimal_pairs(splits["order"]):
        assert first.source != second.source
        assert Counter(first.source.split()) == Counter(second.source.split())
        assert Counter(words.split(first.target)) == Counter(words.split(second.target))


def combinations(pair):
    """(noun, adjective) that a sentence shows: side by side, by *is*, or through a pronoun.

    Reads the words only, and so shares nothing with the grammar.
    """
    said = pair.source.split()
    nouns_at = [i for i, w in enumerate(said) if w in NOUNS]
    for i in nouns_at:
        for j in (i - 1, i - 2):
            if j >= 0 and said[j] in ADJECTIVES and all(w in ADJECTIVES for w in said[j:i]):
                yield NOUNS[said[i]].en, said[j]
    for i, w in enumerate(said):
        is_predicate = w in ADJECTIVES and (i + 1 == len(said) or said[i + 1] not in NOUNS)
        if not is_predicate or (i + 2 < len(said) and said[i + 1] in ADJECTIVES):
            continue
        if pair.antecedents and i == len(said) - 1:
            head = said[pair.antecedents[0][1]]
            if head in NOUNS:
                yield NOUNS[head].en, w
        elif nouns_at:
            yield NOUNS[said[nouns_at[0]]].en, w


@pytest.mark.parametrize(
    ("sentence", "antecedents", "shown"),
    [
        ("the big tired dog runs", (), {("dog", "big"), ("dog", "tired")}),
        ("the dogs that saw the cat were not very sad", (), {("dog", "sad")}),
        ("the dog left the road because it was too wide", ((6, 4),), {("road", "wide")}),
        ("john left the road because he was too sad", ((5, 0),), set()),
    ],
)
def test_the_reader_of_combinations_can_read(sentence, antecedents, shown):
    assert set(combinations(Pair(sentence, "", antecedents=antecedents))) == shown


@pytest.mark.parametrize("world", ["splits", "small"])
def test_unseen_pairs_were_never_shown_and_the_others_were(world, request):
    splits = request.getfixturevalue(world)
    shown = {c for name in ("train", "valid") for p in splits[name] for c in combinations(p)}
    for p in splits["pronouns"]:
        (combination,) = combinations(p)
        assert (combination in shown) == ("unseen_pair" not in p.tags), p.source


def test_half_of_the_pronouns_are_unseen_pairs_and_nothing_else_is_tagged(splits):
    assert sum("unseen_pair" in p.tags for p in splits["pronouns"]) == 250
    assert not any(p.tags for name in SPLITS if name != "pronouns" for p in splits[name])


def test_the_other_direction_is_the_same_world_reversed(small):
    backwards = build_sentences("fr-en", seed=3, n_train=2_000)
    assert backwards == {name: tuple(p.reversed() for p in ps) for name, ps in small.items()}


def test_an_unknown_direction_is_answered_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"unknown direction 'en-de'.*known: en-fr, fr-en"):
        build_sentences("en-de")


def test_a_world_without_training_is_refused():
    with pytest.raises(ConfigError, match="n_train must be at least 1, got 0"):
        build_sentences(n_train=0)


def test_a_tiny_world_keeps_its_promises():
    splits = build_sentences(n_train=50)
    assert len(splits["train"]) == 50
    known = {w for p in splits["train"] for w in p.source.split()}
    assert all(set(p.source.split()) <= known for name in TESTS for p in splits[name])
