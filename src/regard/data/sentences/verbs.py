"""The verbs, every French form written out."""

from __future__ import annotations

from regard.data.sentences import english
from regard.data.sentences.lexicon import Kind, Verb


def _verb(
    en: str,
    forms: str,
    past: str | None = "",
    *,
    by_being: bool = False,
    preposition: str | None = None,
) -> Verb:
    """A verb from its forms with *je, il, nous, ils* and its participle; ``""`` = regular past."""
    je, il, nous, ils, participle = forms.split()
    return Verb(
        en=en,
        en_third=english.third_person(en),
        en_past=english.past(en) if past == "" else past,
        fr={"je": je, "il": il, "nous": nous, "ils": ils},
        participle=participle,
        by_being=by_being,
        preposition=preposition,
    )


def _regular(en: str, infinitive: str, past: str | None = "", *, by_being: bool = False) -> Verb:
    """A verb in *-er* whose stem never changes."""
    stem = infinitive.removesuffix("er")
    return _verb(en, f"{stem}e {stem}e {stem}ons {stem}ent {stem}é", past, by_being=by_being)


CROSS = _regular("cross", "traverser")
FOLLOW = _verb("follow", "suis suit suivons suivent suivi")
LEAVE = _regular("leave", "quitter", "left")
ENTER = _verb("enter", "entre entre entrons entrent entré", by_being=True, preposition="dans")
FIND = _regular("find", "trouver", "found")
EAT = _verb("eat", "mange mange mangeons mangent mangé", "ate")
FINISH = _verb("finish", "finis finit finissons finissent fini")
CARRY = _regular("carry", "porter")
PUSH = _regular("push", "pousser")
PULL = _regular("pull", "tirer")
SEE = _verb("see", "vois voit voyons voient vu", "saw")
HEAR = _verb("hear", "entends entend entendons entendent entendu", "heard")
WATCH = _regular("watch", "regarder")
CHASE = _verb("chase", "poursuis poursuit poursuivons poursuivent poursuivi")
PROTECT = _verb("protect", "protège protège protégeons protègent protégé")
HELP = _regular("help", "aider")
LOVE = _regular("love", "aimer", None)
HATE = _regular("hate", "détester", None)
KNOW = _verb("know", "connais connaît connaissons connaissent connu", None)
BUY = _verb("buy", "achète achète achetons achètent acheté", "bought")
SELL = _verb("sell", "vends vend vendons vendent vendu", "sold")
VISIT = _regular("visit", "visiter")
SLEEP = _verb("sleep", "dors dort dormons dorment dormi", "slept")
SING = _regular("sing", "chanter", "sang")
DANCE = _regular("dance", "danser")
RUN = _verb("run", "cours court courons courent couru", "ran")
LAUGH = _verb("laugh", "ris rit rions rient ri")
WORK = _regular("work", "travailler")
FALL = _regular("fall", "tomber", "fell", by_being=True)
ARRIVE = _regular("arrive", "arriver", by_being=True)
GO = _verb("go", "vais va allons vont allé", "went", by_being=True)
RETURN = _regular("return", "retourner", by_being=True)
LIVE = _regular("live", "habiter", None)

ON_THINGS: dict[Kind, tuple[Verb, ...]] = {
    "road": (CROSS, FOLLOW, LEAVE, SEE),
    "place": (ENTER, LEAVE, FIND, SEE),
    "food": (EAT, FINISH, FIND, SEE),
    "load": (CARRY, PUSH, PULL, FIND),
}
"""What an animal or a person does to things of each kind."""
ON_ANIMATES = (SEE, HEAR, WATCH, FOLLOW, CHASE, PROTECT, FIND)
"""What animals and people do to each other."""
AMONG_PEOPLE = (LOVE, HATE, KNOW, HELP)
"""What only people do to others."""
WITH_GOODS = (BUY, SELL)
"""What people do with things that can be owned."""
ALONE = (SLEEP, RUN, FALL, ARRIVE)
"""What animals and people do by themselves."""
PEOPLE_ALONE = (SING, DANCE, LAUGH, WORK)
"""What only people do by themselves."""
IN_FIRST_PERSON = frozenset(
    {
        *(LEAVE, SEE, FIND, EAT, WATCH, LOVE, HELP, BUY),
        *(SLEEP, SING, WORK, GO, VISIT, ARRIVE, LIVE),
    }
)
"""What *i* and *we* do: few, so that each form is seen often.

Not FOLLOW: *je suis* is *i am* as well.
"""
IN_RELATIVES = (SEE, FIND)
"""What is done in *the apple that i found*: few, for there the participle has four forms."""
