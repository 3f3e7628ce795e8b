"""The words of the translator: each English word has one French translation.

Written by this project. A noun is "cat chat m", with "man/men" where the plural is irregular; an adjective is
"white blanc blanche"; a verb is "eat/ate/eating manger", followed by its present ("je tu il nous ils") and its
participle where it is not conjugated like "parler". A past or an -ing that is left out is not said: "read" would
not tell whether it is present or past.
"""

from dataclasses import dataclass

from attnviz.training.translator import french


@dataclass(frozen=True)
class Noun:
    """A noun; `english` and `french` are (singular, plural), `gender` is "m" or "f"."""

    english: tuple[str, str]
    french: tuple[str, str]
    gender: str
    kind: str

    @property
    def living(self) -> bool:
        return self.kind in ("people", "animals")

    @property
    def counted(self) -> bool:
        """Whether it has "a" and a plural here; "milk" has not."""
        return self.kind not in ("meals", "drinks")


@dataclass(frozen=True)
class Adjective:
    """An adjective; `french` is (masculine, feminine), singular. It stands before its noun if `before`."""

    english: str
    french: tuple[str, str]
    before: bool
    kind: str

    def agreed(self, gender: str, plural: bool) -> str:
        singular = self.french[gender == "f"]
        return french.plural(singular) if plural else singular


@dataclass(frozen=True)
class Verb:
    """A verb; `english` is (base, past, -ing), of which base may have a second word: "look at".

    `present` and `imperfect` are for je, tu, il, nous, ils. `helper` is the verb of its past: "avoir" or "être".
    """

    english: tuple[str, str, str]
    particle: tuple[str, ...]
    infinitive: str
    present: tuple[str, ...]
    participle: str
    helper: str
    reflexive: bool
    objects: tuple[str, ...]

    @property
    def imperfect(self) -> tuple[str, ...]:
        return french.imperfect(self.present[3])


NOUNS = {
    "people": """man/men homme m; woman/women femme f; boy garçon m; girl fille f; king roi m; queen reine f;
        child/children enfant m; mother mère f; father père m; brother frère m; sister sœur f; baby bébé m;
        doctor médecin m; soldier soldat m; prince prince m; princess princesse f; aunt tante f; uncle oncle m""",
    "animals": """cat chat m; dog chien m; bird oiseau m; horse cheval m; mouse/mice souris f; cow vache f;
        duck canard m; bee abeille f; turtle tortue f; rabbit lapin m; lion lion m; elephant éléphant m; fox renard m;
        goat chèvre f; frog grenouille f; wolf/wolves loup m; bear ours m; snake serpent m; spider araignée f;
        animal animal m; giraffe girafe f; butterfly papillon m; monkey singe m; hen poule f; ant fourmi f""",
    "food": """apple pomme f; cake gâteau m; egg œuf m; pear poire f; banana banane f; carrot carotte f;
        tomato/tomatoes tomate f; cookie biscuit m; sandwich sandwich m""",
    "meals": "bread pain m; cheese fromage m; soup soupe f; meat viande f",
    "drinks": "water eau f; milk lait m; coffee café m; tea thé m; wine vin m",
    "texts": "book livre m; letter lettre f; newspaper journal m; story histoire f; poem poème m",
    "clothes": """dress robe f; shirt chemise f; hat chapeau m; coat manteau m; shoe chaussure f; skirt jupe f;
        scarf/scarves écharpe f""",
    "openings": "door porte f; window fenêtre f; box boîte f; bag sac m; bottle bouteille f; suitcase valise f",
    "vehicles": """car voiture f; train train m; bicycle vélo m; boat bateau m; plane avion m; bus bus m;
        truck camion m""",
    "things": """flower fleur f; tree arbre m; key clé f; ball balle f; lamp lampe f; phone téléphone m; cup tasse f;
        knife/knives couteau m; plate assiette f; umbrella parapluie m; clock horloge f; picture image f;
        stone pierre f; guitar guitare f; computer ordinateur m; gift cadeau m""",
    "furniture": """chair chaise f; table table f; bed lit m; mat tapis m; sofa canapé m; bench banc m; roof toit m;
        wall mur m""",
    "ways": "street rue f; road route f; river rivière f; bridge pont m; field champ m",
    "places": """house maison f; garden jardin m; kitchen cuisine f; room chambre f; forest forêt f; park parc m;
        school école f; city ville f; village village m; hotel hôtel m; station gare f; market marché m;
        museum musée m; church église f; hospital hôpital m; library bibliothèque f; castle château m; farm ferme f;
        shop magasin m; restaurant restaurant m; beach plage f; island île f""",
}

ADJECTIVES = {
    "size": """small petit petite; little petit petite; big grand grande; large grand grande; old vieux vieille;
        beautiful beau belle; pretty joli jolie; bad mauvais mauvaise; good bon bonne""",
    "youth": "young jeune jeune",
    "novelty": "new nouveau nouvelle; long long longue",
    "color": """black noir noire; white blanc blanche; red rouge rouge; blue bleu bleue; green vert verte;
        yellow jaune jaune; gray gris grise; grey gris grise; brown brun brune; pink rose rose;
        purple violet violette""",
    "feeling": """tired fatigué fatiguée; happy heureux heureuse; sad triste triste; hungry affamé affamée;
        angry fâché fâchée; intelligent intelligent intelligente; strong fort forte; shy timide timide;
        lazy paresseux paresseuse; curious curieux curieuse; brave courageux courageuse; sick malade malade;
        nervous nerveux nerveuse; patient patient patiente""",
    "property": """heavy lourd lourde; clean propre propre; dirty sale sale;
        empty vide vide; full plein pleine; wet mouillé mouillée; round rond ronde; expensive cher chère;
        famous célèbre célèbre; dangerous dangereux dangereuse; quiet tranquille tranquille; modern moderne moderne;
        broken cassé cassée; strange étrange étrange; interesting intéressant intéressante; wide large large;
        dark sombre sombre; dry sec sèche; French français française; Italian italien italienne""",
    "access": "closed fermé fermée; open ouvert ouverte",
    "taste": "delicious délicieux délicieuse; hot chaud chaude; cold froid froide",
}
ATTRIBUTES = {
    "people": "size youth feeling feeling",
    "animals": "size youth feeling color color",
    **dict.fromkeys(("food", "meals", "drinks"), "size color taste taste"),
    **dict.fromkeys(("openings", "places"), "size novelty color property access"),
    **dict.fromkeys(("texts", "clothes", "vehicles", "things", "furniture", "ways"), "size novelty color property"),
}
"""Which kinds of adjectives each kind of noun takes; one named twice is drawn twice as often."""
BEFORE = ("size", "youth", "novelty")
"""Kinds of adjectives that stand before their noun."""

_REAL = "food meals drinks texts clothes openings vehicles things"
_SEEN = f"people animals {_REAL} furniture ways places"
VERBS = {
    "alone": """sleep/slept/sleeping dormir dors dors dort dormons dorment dormi; walk/walked/walking marcher;
        run/ran/running courir cours cours court courons courent couru; sing/sang/singing chanter;
        dance/danced/dancing danser; eat/ate/eating manger; work/worked/working travailler; swim/swam/swimming nager;
        laugh/laughed/laughing rire ris ris rit rions rient ri; cry/cried/crying pleurer; play/played/playing jouer;
        smile/smiled/smiling sourire souris souris sourit sourions sourient souri; jump/jumped/jumping sauter;
        wait/waited/waiting attendre attends attends attend attendons attendent attendu;
        sit/sat/ se·asseoir assieds assieds assied asseyons asseyent assis;
        sit_down/sat/ se·asseoir assieds assieds assied asseyons asseyent assis;
        wake_up/woke/waking se·réveiller; hide/hid/hiding se·cacher; rest/rested/resting se·reposer""",
    "moves": """arrive/arrived/arriving être·arriver; stop/stopped/stopping se·arrêter;
        leave/left/leaving être·partir pars pars part partons partent parti; fall/fell/falling être·tomber""",
    "goes": """go/went/going être·aller vais vas va allons vont allé;
        come/came/coming être·venir viens viens vient venons viennent venu""",
    "gives": "give/gave/giving donner; show/showed/showing montrer; bring/brought/bringing apporter",
    f"on {_SEEN}": """see/saw/ voir vois vois voit voyons voient vu; look_at/looked/looking regarder;
        find/found/finding trouver; look_for/looked/looking chercher; watch/watched/watching regarder;
        draw/drew/drawing dessiner; love// aimer; like// aimer""",
    "on people animals": """follow/followed/following suivre suis suis suit suivons suivent suivi;
        help/helped/helping aider; hear/heard/ entendre entends entends entend entendons entendent entendu;
        listen_to/listened/listening écouter; wash/washed/washing laver;
        wait_for/waited/waiting attendre attends attends attend attendons attendent attendu""",
    f"on {_REAL}": """take/took/taking prendre prends prends prend prenons prennent pris;
        buy/bought/buying acheter achète achètes achète achetons achètent acheté;
        sell/sold/selling vendre vends vends vend vendons vendent vendu;
        choose/chose/choosing choisir choisis choisis choisit choisissons choisissent choisi""",
    "on texts clothes openings things": """lose/lost/losing perdre perds perds perd perdons perdent perdu;
        carry/carried/carrying porter; have// avoir ai as a avons ont eu""",
    "on food meals": "eat/ate/eating manger",
    "on drinks": "drink/drank/drinking boire bois bois boit buvons boivent bu",
    "on texts": """read//reading lire lis lis lit lisons lisent lu;
        write/wrote/writing écrire écris écris écrit écrivons écrivent écrit""",
    "on clothes": "wear/wore/wearing porter",
    "on openings": """open/opened/opening ouvrir ouvre ouvres ouvre ouvrons ouvrent ouvert;
        close/closed/closing fermer""",
    "on ways": "cross/crossed/crossing traverser",
    "on places": "visit/visited/visiting visiter",
}
MODALS = {"can": ("peux", "peux", "peut", "pouvons", "peuvent"), "want": ("veux", "veux", "veut", "voulons", "veulent")}
BE = {
    "present": ("suis", "es", "est", "sommes", "sont"),
    "imperfect": ("étais", "étais", "était", "étions", "étaient"),
}
HAVE = ("ai", "as", "a", "avons", "ont")

DETERMINERS = {
    "the": ("le", "la", "les"),
    "a": ("un", "une", ""),
    "some": ("", "", "des"),
    "this": ("ce", "cette", ""),
    "these": ("", "", "ces"),
    "my": ("mon", "ma", "mes"),
    "your": ("ton", "ta", "tes"),
    "his": ("son", "sa", "ses"),
    "her": ("son", "sa", "ses"),
    "our": ("notre", "notre", "nos"),
    "their": ("leur", "leur", "leurs"),
}
"""English to French: masculine, feminine, plural; empty where there is none."""

NUMBERS = {
    "two": "deux", "three": "trois", "four": "quatre", "five": "cinq", "six": "six", "seven": "sept",
    "eight": "huit", "nine": "neuf", "ten": "dix",
}  # fmt: skip
NAMES = {
    "Anna": "f", "Emma": "f", "Marie": "f", "Alice": "f", "Julia": "f", "Sarah": "f",
    "Paul": "m", "Tom": "m", "Lucas": "m", "Arthur": "m", "Max": "m", "David": "m",
}  # fmt: skip
PRONOUNS = {
    "I": ("je", "me", 0, "m"), "you": ("tu", "te", 1, "m"), "he": ("il", "le", 2, "m"), "she": ("elle", "la", 2, "f"),
    "it": ("il", "", 2, "m"), "we": ("nous", "nous", 3, "m"), "they": ("ils", "les", 4, "m"),
}  # fmt: skip
"""English subject: French subject, French object, which form of the verb, and the gender that it is taken for."""
OBJECTS = {"me": "I", "you": "you", "him": "he", "her": "she", "us": "we", "them": "they"}
REFLEXIVES = ("me", "te", "se", "nous", "se")

PREPOSITIONS = {
    "on": ("sur", "furniture beach island road bridge"),
    "under": ("sous", "table bed chair bench tree bridge umbrella roof"),
    "in": (
        "dans",
        "house garden kitchen room forest park school city village hotel station museum church hospital library castle"
        " farm shop restaurant street field river car train bus boat box",
    ),
    "behind": ("derrière", "furniture places vehicles door window tree"),
    "in front of": ("devant", "furniture places vehicles door window tree"),
    "near": ("près de", "furniture places vehicles ways door window tree lamp"),
    "with": ("avec", "people animals"),
}
"""English to French, and the kinds and single nouns it takes."""
JOINS = {"and": "et", "but": "mais", "because": "parce que", "when": "quand", "while": "pendant que"}
ADVERBS = {
    "very": "très", "too": "trop", "often": "souvent", "always": "toujours", "slowly": "lentement", "quickly": "vite",
    "here": "ici", "yesterday": "hier", "today": "aujourd'hui",
}  # fmt: skip
DESTINATIONS = "park school market station museum hospital beach church library castle hotel restaurant farm village"


def _entries(text: str) -> list[list[str]]:
    return [entry.split() for entry in text.split(";")]


def _noun(english: str, written: str, gender: str, *, kind: str) -> Noun:
    one, _, many = english.partition("/")
    return Noun((one, many or one_to_many(one)), (written, french.plural(written)), gender, kind)


def one_to_many(word: str) -> str:
    """The English -s of plurals and of "he sleeps"."""
    if word.endswith(("s", "x", "ch", "sh", "go")):
        return f"{word}es"
    if word.endswith("y") and word[-2] not in "aeiou":
        return f"{word[:-1]}ies"
    return "has" if word == "have" else f"{word}s"


def _verb(english: str, infinitive: str, *forms: str, objects: tuple[str, ...]) -> Verb:
    base, past, ing = english.split("/")
    base, *particle = base.split("_")
    helper, _, infinitive = infinitive.rpartition("·")
    *present, participle = forms or french.like_parler(infinitive)
    return Verb(
        (base, past, ing),
        tuple(particle),
        infinitive,
        tuple(present),
        participle,
        "être" if helper else "avoir",
        helper == "se",
        objects,
    )


NOUN_LIST = tuple(_noun(*entry, kind=kind) for kind, text in NOUNS.items() for entry in _entries(text))
ADJECTIVE_LIST = tuple(
    Adjective(english, (masculine, feminine), kind in BEFORE, kind)
    for kind, text in ADJECTIVES.items()
    for english, masculine, feminine in _entries(text)
)
VERB_LISTS = {
    kind: tuple(_verb(*entry, objects=tuple(kind.split()[1:])) for entry in _entries(text))
    for kind, text in VERBS.items()
}


def nouns(chosen: str) -> tuple[Noun, ...]:
    """The nouns of some kinds, or single ones by their English name."""
    wanted = set(chosen.split())
    return tuple(noun for noun in NOUN_LIST if noun.kind in wanted or noun.english[0] in wanted)
