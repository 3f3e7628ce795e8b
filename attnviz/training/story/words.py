"""The words of the stories: who and what there is, what it can be and do, chosen by this project."""

from dataclasses import dataclass

PRONOUNS = ("he", "she", "it", "they")
POSSESSIVES = {"he": "his", "she": "her", "it": "its", "they": "their"}
REFLEXIVES = {"he": "himself", "she": "herself", "it": "itself", "they": "themselves"}


@dataclass(frozen=True)
class Noun:
    """A word or a name, the pronoun that stands for it, and its group: "people", "animals" or "things"."""

    word: str
    pronoun: str
    group: str
    named: bool = False

    @property
    def plural(self) -> bool:
        return self.pronoun == "they"


@dataclass(frozen=True)
class Verb:
    """The forms of one verb: they sit, it sits, it sat; and they sat, where that is another word."""

    many: str
    one: str
    past: str
    past_many: str = ""

    def form(self, plural: bool, past: bool) -> str:
        if past:
            return self.past_many or self.past if plural else self.past
        return self.many if plural else self.one


def _nouns(group: str, pronoun: str, text: str) -> tuple[Noun, ...]:
    """From "box/boxes", a noun for one and a noun for many."""
    pairs = (pair.split("/") for pair in text.split())
    return tuple(Noun(word, p, group) for pair in pairs for word, p in zip(pair, (pronoun, "they"), strict=True))


def _verbs(text: str) -> tuple[Verb, ...]:
    return tuple(Verb(*forms.split("/")) for forms in text.split())


NAMES = tuple(
    Noun(name, pronoun, "people", named=True)
    for pronoun, names in (
        ("he", "tom ben sam peter david max leo jack paul oscar henry adam"),
        ("she", "anna lucy mia emma sara nina clara alice julia eva kate maria"),
    )
    for name in names.split()
)
NOUNS = (
    *_nouns("people", "he", "boy/boys man/men king/kings prince/princes brother/brothers uncle/uncles father/fathers"),
    *_nouns("people", "she", "girl/girls woman/women queen/queens princess/princesses sister/sisters aunt/aunts"),
    *_nouns("people", "she", "mother/mothers"),
    *_nouns("animals", "it", "cat/cats dog/dogs bird/birds horse/horses rabbit/rabbits fox/foxes duck/ducks cow/cows"),
    *_nouns("animals", "it", "frog/frogs bear/bears"),
    *_nouns("things", "it", "key/keys book/books letter/letters picture/pictures flower/flowers ball/balls lamp/lamps"),
    *_nouns("things", "it", "ring/rings coin/coins hat/hats cake/cakes apple/apples cup/cups clock/clocks"),
    *_nouns("things", "it", "box/boxes bag/bags basket/baskets door/doors window/windows chair/chairs boat/boats"),
)
PLACES = _nouns(
    "places",
    "it",
    "cabinet/cabinets table/tables mat/mats house/houses garden/gardens park/parks kitchen/kitchens forest/forests "
    "tree/trees gate/gates bed/beds bridge/bridges school/schools room/rooms hill/hills river/rivers",
)
STANDING = "in near behind beside"
WHERE = {
    "table": "on under near",
    "mat": "on on near",
    "tree": "under near behind",
    "bed": "on under near",
    "bridge": "on under near",
    "hill": "on near behind",
    "river": "in near beside",
    "gate": "near behind beside",
    "cabinet": "near behind beside",
}
"""How to be at a place; at any other place one is as in `STANDING`."""

MEETINGS = "garden park kitchen forest house school room".split()
"""Where people go to, and meet in."""

BELONGING = {
    "key": "to:cabinet,door,gate,house,box,room,boat",
    "door": "of:house,room,school,cabinet,kitchen",
    "window": "of:house,room,school,kitchen",
    "picture": "of:cat,dog,boy,girl,king,queen,river,flower,boat,house,bear",
    "book": "about:king,queen,dog,horse,bird,tree,prince,princess,fox,bear",
    "letter": "from:girl,boy,king,queen,aunt,uncle,sister,brother,mother,father",
    "flower": "from:garden,park,boy,girl,forest",
    "box": "with:key,coin,ring,letter,cake,hat",
    "bag": "with:apple,book,ball,cup,coin",
    "basket": "with:apple,flower,cake,ball",
    "brother": "of:king,queen,girl,boy,princess",
    "sister": "of:king,queen,girl,boy,prince",
    "mother": "of:girl,boy,king,prince,princess",
    "father": "of:girl,boy,queen,prince,princess",
    "king": "with:horse,ring,dog,sister",
    "queen": "with:horse,ring,letter,brother",
    "boy": "with:dog,ball,hat,sister,apple",
    "girl": "with:cat,book,hat,brother,flower",
    "man": "with:dog,bag,hat,lamp,box",
    "woman": "with:cat,basket,bag,letter,lamp",
    "dog": "of:girl,boy,man,woman,king",
    "cat": "of:girl,boy,aunt,uncle,queen",
    "horse": "of:king,queen,prince,princess,man",
}
"""What a noun may belong to: a preposition and the nouns after it."""

QUALITIES = {
    "people": "tired happy sad hungry angry late kind cold ill proud afraid ready".split(),
    "animals": "tired hungry thirsty wet afraid sleepy wild quick cold".split(),
    "things": "old new heavy dirty broken red lost empty clean beautiful".split(),
}
ADJECTIVES = {
    "people": "old young tall little kind".split(),
    "animals": "small big brown little black".split(),
    "things": "small big old new red".split(),
    "places": "small big old".split(),
}
MOVES = {
    "people": _verbs(
        "sit/sits/sat sleep/sleeps/slept run/runs/ran play/plays/played wait/waits/waited walk/walks/walked "
        "stand/stands/stood laugh/laughs/laughed sing/sings/sang dance/dances/danced smile/smiles/smiled "
        "cry/cries/cried read/reads/read cook/cooks/cooked"
    ),
    "animals": _verbs(
        "sit/sits/sat sleep/sleeps/slept run/runs/ran play/plays/played wait/waits/waited walk/walks/walked "
        "hide/hides/hid"
    ),
    "things": _verbs("fall/falls/fell stand/stands/stood break/breaks/broke shine/shines/shone lie/lies/lay"),
}
OWN_MOVES = {
    "dog": _verbs("bark/barks/barked"),
    "cat": _verbs("purr/purrs/purred"),
    "bird": _verbs("sing/sings/sang fly/flies/flew"),
    "horse": _verbs("jump/jumps/jumped"),
    "frog": _verbs("jump/jumps/jumped swim/swims/swam"),
    "duck": _verbs("swim/swims/swam fly/flies/flew"),
    "bear": _verbs("climb/climbs/climbed"),
}
"""What one kind of animal does besides what all do."""

DOWN = ("sit", "lie", "fall")
DEEDS = {
    "people": _verbs(
        "see/sees/saw like/likes/liked find/finds/found want/wants/wanted follow/follows/followed hear/hears/heard "
        "watch/watches/watched love/loves/loved carry/carries/carried need/needs/needed paint/paints/painted"
    ),
    "animals": _verbs(
        "see/sees/saw like/likes/liked find/finds/found want/wants/wanted follow/follows/followed hear/hears/heard "
        "watch/watches/watched chase/chases/chased"
    ),
}
LOSE = Verb("lose", "loses", "lost")
FIND = Verb("find", "finds", "found")
GIVE = Verb("give", "gives", "gave")
MEET = Verb("meet", "meets", "met")
GO = Verb("go", "goes", "went")
BE = Verb("are", "is", "was", "were")
HAVE = Verb("have", "has", "had")
JOINS = ("because", "because", "because", "because", "when", "while", ", but", ", so")
ADVERBS = ("quietly", "again", "today", "alone")
