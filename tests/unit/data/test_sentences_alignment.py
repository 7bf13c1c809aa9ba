"""Gold alignments and antecedents against links written by hand."""

import pytest

from regard.data.worlds import lexicon, phrases, sentences, trees
from regard.data.worlds.drawing import I
from regard.data.worlds.lexicon import MANY, THE, A
from regard.data.worlds.phrases import Draft, phrase, simple, word
from regard.data.worlds.trees import Action, Clause, NounPhrase, RelativeClause, write_pair
from regard.text import words


def noun(en):
    (found,) = (
        n for n in lexicon.ANIMALS + lexicon.ROADS + lexicon.PLACES + lexicon.FOODS if n.en == en
    )
    return found


def named(text):
    (name,) = (n for n in lexicon.NAMES if n.text == text)
    return trees.named(name)


def links(example):
    """The alignment as *english-french* words, as a person would write it down."""
    source, target = words.split(example.source), words.split(example.target)
    return [f"{source[i]}-{target[j]}" for i, j in example.alignment]


TIRED, WIDE = sentences.lecture_pronouns().pairs
AFRICA, STUDENT = (drawn.pairs[0] for drawn in sentences.other_lectures())


def test_negated_past_is_aligned_by_auxiliary_negation_and_verb():
    assert links(TIRED) == (
        "the-l' animal-animal did-a not-n' not-pas cross-traversé the-la street-rue "
        "because-parce because-qu' it-il was-était too-trop tired-fatigué"
    ).split(" ")


def test_positions_of_the_lecture_sentence():
    # l'0 animal1 n'2 a3 pas4 traversé5 la6 rue7 parce8 qu'9 elle10 était11 trop12 large13
    assert WIDE.alignment == (
        *((0, 0), (1, 1), (2, 3), (3, 2), (3, 4), (4, 5), (5, 6), (6, 7)),
        *((7, 8), (7, 9), (8, 10), (9, 11), (10, 12), (11, 13)),
    )


@pytest.mark.parametrize(
    ("example", "expected"),
    [
        (AFRICA, "jane-jane visits-visite africa-afrique in-en september-septembre"),
        (STUDENT, "i-je am-suis student-étudiant"),
        (
            write_pair(Clause(named("john"), Action(lexicon.EAT, True, False, None))),
            "john-john ate-a ate-mangé",
        ),
        (
            write_pair(Clause(I, Action(lexicon.LOVE, False, True, NounPhrase(noun("bird"), THE)))),
            "i-je not-n' not-pas love-aime the-l' bird-oiseau",
        ),
        (
            write_pair(Clause(I, Action(lexicon.SEE, True, True, NounPhrase(noun("cat"), A)))),
            "i-je did-ai not-n' not-pas see-vu a-de cat-chat",
        ),
        (
            write_pair(
                Clause(I, Action(lexicon.SEE, False, False, NounPhrase(noun("bird"), MANY, True)))
            ),
            "i-je see-vois many-beaucoup many-d' birds-oiseaux",
        ),
        (
            write_pair(
                Clause(I, Action(lexicon.ENTER, False, False, NounPhrase(noun("house"), THE)))
            ),
            "i-j' enter-entre the-la house-maison",
        ),
        (
            write_pair(
                Clause(
                    NounPhrase(
                        noun("dog"),
                        THE,
                        relative=RelativeClause(
                            Action(lexicon.SEE, False, False, NounPhrase(noun("cat"), THE))
                        ),
                    ),
                    Action(
                        lexicon.GO,
                        False,
                        False,
                        None,
                        (NounPhrase(noun("museum"), THE).group(preposition=lexicon.TO),),
                    ),
                )
            ),
            "the-le dog-chien that-qui sees-voit the-le cat-chat goes-va to-au the-au museum-musée",
        ),
        (
            write_pair(
                Clause(
                    named("emma"),
                    Action(
                        lexicon.GO,
                        False,
                        False,
                        None,
                        (phrases.proper_group(lexicon.LANDS[-1], "to"),),
                    ),
                )
            ),
            "emma-emma goes-va to-au portugal-portugal",
        ),
    ],
)
def test_alignments_written_by_hand(example, expected):
    assert links(example) == expected.split(" ")


def test_adjectives_cross_over_their_noun():
    neutral = {adjective.en: adjective for adjective in lexicon.NEUTRAL}
    street = NounPhrase(noun("street"), A, False, neutral["big"], neutral["famous"]).group()
    assert street.en == ("a", "big", "famous", "street")
    assert street.fr == ("une", "grande", "rue", "célèbre")
    assert street.links == ((0, 0), (1, 1), (2, 3), (3, 2))


def test_antecedents_are_heads_in_both_languages():
    assert (TIRED.antecedents, TIRED.target_antecedents) == (((8, 1),), ((10, 1),))
    assert (WIDE.antecedents, WIDE.target_antecedents) == (((8, 6),), ((10, 7),))


def test_a_sentence_without_pronouns_has_no_antecedents():
    assert (AFRICA.antecedents, AFRICA.target_antecedents) == ((), ())


def test_words_are_linked_by_the_nodes_they_share():
    made = phrase(
        [word("one", "x"), word("two", "x", "y"), word("three")],
        [word("un", "y"), word("deux"), word("trois", "x")],
        "y",
    )
    assert made.links == ((0, 2), (1, 0), (1, 2))
    assert made.head == (1, 0)


def test_a_draft_elides_at_the_seam_and_moves_links_and_heads():
    draft = Draft()
    draft.add(simple("because", "parce que"))
    head = draft.add(simple("it", "elle"))
    assert draft.fr == ["parce", "qu'", "elle"]
    assert head == (1, 2)
    assert draft.pair().alignment == ((0, 0), (0, 1), (1, 2))
    assert draft.pair().target == "parce qu'elle"
