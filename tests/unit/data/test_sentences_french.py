"""The French of the sentences world against sentences written by hand."""

import pytest

from regard.data.worlds import lexicon, phrases
from regard.data.worlds.drawing import HE, SHE, WE, I
from regard.data.worlds.lexicon import MANY, MY, OUR, SOME, THE, THIS, TWO, A
from regard.data.worlds.trees import (
    Action,
    Clause,
    NounPhrase,
    RelativeClause,
    State,
    both,
    named,
    on_map,
    write_pair,
)
from regard.text import words

NOUNS = {
    noun.en: noun
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
}
ADJECTIVES = {a.en: a for a in lexicon.DECISIVE + lexicon.NEUTRAL}
NAMES = {name.text: name for name in lexicon.NAMES}
PLACES = {place.en: place for place in lexicon.LANDS + lexicon.CITIES}
TRADES = {profession.en: profession for profession in lexicon.PROFESSIONS}
MONTHS = {month.en: month for month in lexicon.MONTHS}


def np(determiner, description, *, plural=False, **more):
    """A noun phrase from *big red house*, lexicon going where French wants them."""
    *described, noun = description.split()
    known = [ADJECTIVES[word] for word in described]
    before = next((a for a in known if a.before), None)
    after = next((a for a in known if not a.before), None)
    return NounPhrase(NOUNS[noun], determiner, plural, before, after, **more)


def who(name):
    return named(NAMES[name])


def does(verb, target=None, *adjuncts):
    return Action(verb, False, False, target, adjuncts)


def did(verb, target=None, *adjuncts):
    return Action(verb, True, False, target, adjuncts)


def does_not(verb, target=None, *adjuncts):
    return Action(verb, False, True, target, adjuncts)


def did_not(verb, target=None, *adjuncts):
    return Action(verb, True, True, target, adjuncts)


def at(preposition, phrase):
    return phrase.group(preposition=preposition)


def month(name):
    return phrases.proper_group(MONTHS[name], "in")


NOUN_PHRASES = [
    (np(THE, "animal"), "the animal", "l'animal"),
    (np(THE, "dog"), "the dog", "le chien"),
    (np(THE, "street"), "the street", "la rue"),
    (np(THE, "school"), "the school", "l'école"),
    (np(THE, "man"), "the man", "l'homme"),
    (np(THE, "hedgehog"), "the hedgehog", "le hérisson"),
    (np(THE, "hospital", plural=True), "the hospitals", "les hôpitaux"),
    (np(THE, "egg"), "the egg", "l'œuf"),
    (np(THE, "mouse", plural=True), "the mice", "les souris"),
    (np(A, "elephant"), "an elephant", "un éléphant"),
    (np(A, "old horse"), "an old horse", "un vieux cheval"),
    (np(A, "big red house"), "a big red house", "une grande maison rouge"),
    (np(A, "beautiful hotel"), "a beautiful hotel", "un bel hôtel"),
    (np(A, "old man"), "an old man", "un vieil homme"),
    (np(A, "old hedgehog"), "an old hedgehog", "un vieux hérisson"),
    (np(A, "new hospital"), "a new hospital", "un nouvel hôpital"),
    (np(A, "new white box"), "a new white box", "une nouvelle boîte blanche"),
    (np(THE, "long road"), "the long road", "la longue route"),
    (np(THE, "proud sister"), "the proud sister", "la sœur fière"),
    (np(THE, "lazy cow", plural=True), "the lazy cows", "les vaches paresseuses"),
    (np(THE, "jealous goose"), "the jealous goose", "l'oie jalouse"),
    (np(THIS, "bird"), "this bird", "cet oiseau"),
    (np(THIS, "little bird"), "this little bird", "ce petit oiseau"),
    (np(THIS, "hedgehog"), "this hedgehog", "ce hérisson"),
    (np(THIS, "church"), "this church", "cette église"),
    (np(THIS, "animal", plural=True), "these animals", "ces animaux"),
    (np(MY, "mother"), "my mother", "ma mère"),
    (np(MY, "school"), "my school", "mon école"),
    (np(MY, "little school"), "my little school", "ma petite école"),
    (np(MY, "uncle", plural=True), "my uncles", "mes oncles"),
    (np(OUR, "goose"), "our goose", "notre oie"),
    (np(OUR, "old horse", plural=True), "our old horses", "nos vieux chevaux"),
    (np(SOME, "blue bag", plural=True), "some blue bags", "des sacs bleus"),
    (np(SOME, "beautiful cake", plural=True), "some beautiful cakes", "de beaux gâteaux"),
    (np(TWO, "sad wolf", plural=True), "two sad wolves", "deux loups tristes"),
    (np(MANY, "bird", plural=True), "many birds", "beaucoup d'oiseaux"),
    (np(MANY, "big church", plural=True), "many big churches", "beaucoup de grandes églises"),
]


@pytest.mark.parametrize(("phrase", "en", "fr"), NOUN_PHRASES, ids=[fr for *_, fr in NOUN_PHRASES])
def test_noun_phrases_agree_elide_and_place_their_adjectives(phrase, en, fr):
    group = phrase.group()
    assert (words.join(group.en), words.join(group.fr)) == (en, fr)


PREPOSITIONS = [
    (lexicon.TO, np(THE, "castle"), "to the castle", "au château"),
    (lexicon.TO, np(THE, "hotel"), "to the hotel", "à l'hôtel"),
    (lexicon.TO, np(THE, "library"), "to the library", "à la bibliothèque"),
    (lexicon.TO, np(THE, "garage", plural=True), "to the garages", "aux garages"),
    (lexicon.TO, np(MY, "museum"), "to my museum", "à mon musée"),
    (lexicon.OF, np(THE, "museum"), "of the museum", "du musée"),
    (lexicon.OF, np(THE, "school"), "of the school", "de l'école"),
    (lexicon.OF, np(THE, "old school"), "of the old school", "de la vieille école"),
    (lexicon.OF, np(THE, "new hospital"), "of the new hospital", "du nouvel hôpital"),
    (lexicon.OF, np(A, "church"), "of a church", "d'une église"),
    (lexicon.OF, np(THE, "house", plural=True), "of the houses", "des maisons"),
    (lexicon.NEAR, np(THE, "castle"), "near the castle", "près du château"),
    (lexicon.NEAR, np(A, "hotel"), "near a hotel", "près d'un hôtel"),
    (lexicon.NEAR, np(THE, "barn", plural=True), "near the barns", "près des granges"),
    (lexicon.IN, np(THE, "garage"), "in the garage", "dans le garage"),
    (lexicon.WITH, np(MY, "ant"), "with my ant", "avec ma fourmi"),
    (lexicon.BEHIND, np(THIS, "hotel"), "behind this hotel", "derrière cet hôtel"),
]


@pytest.mark.parametrize(
    ("preposition", "phrase", "en", "fr"), PREPOSITIONS, ids=[fr for *_, fr in PREPOSITIONS]
)
def test_prepositions_contract_with_articles_that_are_not_elided(preposition, phrase, en, fr):
    group = phrase.group(preposition=preposition)
    assert (words.join(group.en), words.join(group.fr)) == (en, fr)


THE_STREET = np(THE, "street")
CLAUSES = [
    # the two tenses, and negation around the verb or the auxiliary
    (np(THE, "dog"), does(lexicon.SEE, np(A, "cat")), "le chien voit un chat"),
    (np(THE, "dog"), does_not(lexicon.SEE, np(THE, "cat")), "le chien ne voit pas le chat"),
    (np(THE, "dog"), did(lexicon.EAT, np(THE, "apple")), "le chien a mangé la pomme"),
    (np(THE, "bee"), does_not(lexicon.HEAR, np(THE, "ant")), "l'abeille n'entend pas la fourmi"),
    (np(THE, "animal"), did_not(lexicon.CROSS, THE_STREET), "l'animal n'a pas traversé la rue"),
    (
        np(THE, "cat", plural=True),
        did_not(lexicon.FINISH, np(MY, "pear", plural=True)),
        "les chats n'ont pas fini mes poires",
    ),
    # un becomes de as the direct object of a negated verb, not after a preposition
    (np(THE, "dog"), did_not(lexicon.SEE, np(A, "cat")), "le chien n'a pas vu de chat"),
    (who("emma"), does_not(lexicon.BUY, np(A, "ladder")), "emma n'achète pas d'échelle"),
    (
        who("anna"),
        did_not(lexicon.ENTER, np(A, "church")),
        "anna n'est pas entrée dans une église",
    ),
    # participles after être agree with the subject, after avoir they do not
    (
        who("john"),
        did(lexicon.GO, None, at(lexicon.TO, np(THE, "museum"))),
        "john est allé au musée",
    ),
    (
        np(MY, "aunt"),
        did(lexicon.GO, None, at(lexicon.TO, np(THE, "museum"))),
        "ma tante est allée au musée",
    ),
    (np(THE, "wolf", plural=True), did(lexicon.FALL), "les loups sont tombés"),
    (np(THE, "frog", plural=True), did_not(lexicon.ARRIVE), "les grenouilles ne sont pas arrivées"),
    (both(who("emma"), who("jane")), did(lexicon.ARRIVE), "emma et jane sont arrivées"),
    (both(who("emma"), who("paul")), did(lexicon.ARRIVE), "emma et paul sont arrivés"),
    (np(THE, "frog", plural=True), did(lexicon.SLEEP), "les grenouilles ont dormi"),
    # persons
    (I, does(lexicon.LOVE, np(THE, "bird")), "j'aime l'oiseau"),
    (I, did_not(lexicon.FIND, np(THIS, "egg")), "je n'ai pas trouvé cet œuf"),
    (I, did(lexicon.ARRIVE), "je suis arrivé"),
    (WE, does(lexicon.EAT, np(THE, "cake")), "nous mangeons le gâteau"),
    (WE, did(lexicon.GO, None, at(lexicon.TO, np(THE, "school"))), "nous sommes allés à l'école"),
    (HE, does_not(lexicon.HELP, who("mary")), "il n'aide pas mary"),
    (SHE, did(lexicon.LEAVE, np(THE, "forest")), "elle a quitté la forêt"),
    # places and months
    (who("jane"), does(lexicon.VISIT, on_map(PLACES["france"])), "jane visite la france"),
    (who("jane"), did(lexicon.LEAVE, on_map(PLACES["japan"])), "jane a quitté le japon"),
    (who("paul"), does(lexicon.LOVE, on_map(PLACES["lisbon"])), "paul aime lisbonne"),
    (
        I,
        does(lexicon.LIVE, None, phrases.proper_group(PLACES["canada"], "in")),
        "j'habite au canada",
    ),
    (
        who("mary"),
        did(lexicon.RETURN, None, phrases.proper_group(PLACES["italy"], "to"), month("august")),
        "mary est retournée en italie en août",
    ),
    (
        who("peter"),
        does_not(lexicon.GO, None, phrases.proper_group(PLACES["london"], "to")),
        "peter ne va pas à londres",
    ),
    # être with lexicon and with professions, which have no article
    (np(THE, "house"), State(ADJECTIVES["white"], False), "la maison est blanche"),
    (
        np(THE, "door", of=at(lexicon.OF, np(THE, "castle"))),
        State(ADJECTIVES["red"], True, True),
        "la porte du château n'était pas rouge",
    ),
    (WE, State(ADJECTIVES["furious"], True, False, "very"), "nous étions très furieux"),
    (
        np(THE, "pear", plural=True),
        State(ADJECTIVES["bitter"], False, False, "too"),
        "les poires sont trop amères",
    ),
    (SHE, State(TRADES["singer"], False), "elle est chanteuse"),
    (I, State(TRADES["lawyer"], False, True), "je ne suis pas avocat"),
    (np(MY, "sister", plural=True), State(TRADES["doctor"], True), "mes sœurs étaient médecins"),
    (who("alice"), State(TRADES["musician"], True, True), "alice n'était pas musicienne"),
    # relative clauses; a participle agrees with an object that comes before it
    (
        np(THE, "dog", relative=RelativeClause(does(lexicon.SEE, np(THE, "cat")))),
        does(lexicon.SLEEP),
        "le chien qui voit le chat dort",
    ),
    (
        np(THE, "woman", relative=RelativeClause(did(lexicon.CHASE, np(THE, "wolf")))),
        does(lexicon.LAUGH),
        "la femme qui a poursuivi le loup rit",
    ),
    (
        np(THE, "apple", relative=RelativeClause(Action(lexicon.FIND, True), I)),
        State(ADJECTIVES["sour"], True),
        "la pomme que j'ai trouvée était acide",
    ),
    (
        np(
            SOME,
            "lemon",
            plural=True,
            relative=RelativeClause(Action(lexicon.SEE, True), who("alice")),
        ),
        State(ADJECTIVES["green"], True),
        "des citrons qu'alice a vus étaient verts",
    ),
    (
        np(
            THE,
            "giraffe",
            plural=True,
            relative=RelativeClause(Action(lexicon.SEE, True), np(A, "boy")),
        ),
        State(ADJECTIVES["shy"], False),
        "les girafes qu'un garçon a vues sont timides",
    ),
]


@pytest.mark.parametrize(
    ("subject", "predicate", "fr"), CLAUSES, ids=[case[-1] for case in CLAUSES]
)
def test_clauses_are_good_french(subject, predicate, fr):
    assert write_pair(Clause(subject, predicate)).target == fr


def because(subject, action, adjective, *, of_object):
    degree = "too" if action.negated else "very"
    state = State(ADJECTIVES[adjective], action.past, False, degree)
    return Clause(subject, action, state, of_object)


@pytest.mark.parametrize(
    ("clause", "en", "fr"),
    [
        (
            because(
                np(THE, "animal"), did_not(lexicon.CROSS, THE_STREET), "tired", of_object=False
            ),
            "the animal did not cross the street because it was too tired",
            "l'animal n'a pas traversé la rue parce qu'il était trop fatigué",
        ),
        (
            because(np(THE, "animal"), did_not(lexicon.CROSS, THE_STREET), "wide", of_object=True),
            "the animal did not cross the street because it was too wide",
            "l'animal n'a pas traversé la rue parce qu'elle était trop large",
        ),
        (
            because(
                np(THE, "cow"), does(lexicon.ENTER, np(THE, "hotel")), "curious", of_object=False
            ),
            "the cow enters the hotel because it is very curious",
            "la vache entre dans l'hôtel parce qu'elle est très curieuse",
        ),
        (
            because(who("mary"), did_not(lexicon.CARRY, np(THE, "bag")), "lazy", of_object=False),
            "mary did not carry the bag because she was too lazy",
            "mary n'a pas porté le sac parce qu'elle était trop paresseuse",
        ),
        (
            because(
                np(THE, "king"), did_not(lexicon.CARRY, np(THE, "bag")), "heavy", of_object=True
            ),
            "the king did not carry the bag because it was too heavy",
            "le roi n'a pas porté le sac parce qu'il était trop lourd",
        ),
        (
            because(
                np(THE, "bear", plural=True),
                did(lexicon.EAT, np(THE, "carrot", plural=True)),
                "rotten",
                of_object=True,
            ),
            "the bears ate the carrots because they were very rotten",
            "les ours ont mangé les carottes parce qu'elles étaient très pourries",
        ),
        (
            because(
                np(THE, "ant", plural=True),
                did(lexicon.EAT, np(THE, "egg", plural=True)),
                "ripe",
                of_object=True,
            ),
            "the ants ate the eggs because they were very ripe",
            "les fourmis ont mangé les œufs parce qu'ils étaient très mûrs",
        ),
    ],
)
def test_a_pronoun_takes_the_gender_of_what_it_means(clause, en, fr):
    got = write_pair(clause)
    assert (got.source, got.target) == (en, fr)


@pytest.mark.parametrize(
    ("clause", "en"),
    [
        (Clause(np(THE, "dog"), does(lexicon.CARRY, np(A, "egg"))), "the dog carries an egg"),
        (Clause(np(THE, "dog"), did(lexicon.CARRY, np(A, "box"))), "the dog carried a box"),
        (Clause(np(THE, "wolf", plural=True), does(lexicon.RUN)), "the wolves run"),
        (Clause(np(THE, "dog"), does_not(lexicon.GO)), "the dog does not go"),
        (Clause(WE, does_not(lexicon.SLEEP)), "we do not sleep"),
        (Clause(np(TWO, "man", plural=True), did(lexicon.LEAVE)), "two men left"),
        (Clause(I, State(ADJECTIVES["sad"], False, True)), "i am not sad"),
        (Clause(WE, State(ADJECTIVES["sad"], True, False, "very")), "we were very sad"),
        (Clause(HE, State(TRADES["baker"], False)), "he is a baker"),
        (Clause(WE, State(TRADES["baker"], False)), "we are bakers"),
        (
            Clause(
                np(THE, "girl", relative=RelativeClause(did(lexicon.SEE, who("paul")))),
                did(lexicon.SING),
            ),
            "the girl who saw paul sang",
        ),
        (
            Clause(
                np(THE, "bee", relative=RelativeClause(Action(lexicon.SEE, False), who("paul"))),
                did(lexicon.FALL),
            ),
            "the bee that paul sees fell",
        ),
    ],
)
def test_the_english_is_good_too(clause, en):
    assert write_pair(clause).source == en


def test_clauses_are_joined_by_and():
    got = write_pair(
        Clause(who("john"), does(lexicon.SING)), Clause(who("mary"), did(lexicon.FALL))
    )
    assert (got.source, got.target) == (
        "john sings and mary fell",
        "john chante et mary est tombée",
    )
