"""Types that the codec tests declare. Annotations here are strings, as in most applications."""

from __future__ import annotations

import dataclasses
import enum
from collections import namedtuple
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Generic, NamedTuple, NotRequired, Required, TypedDict, TypeVar

import msgspec
import pydantic

T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Word(enum.StrEnum):
    YES = "yes"
    NO = "no"


class Mode(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


class Corner(enum.Enum):
    """Values that JSON does not know: stored by name."""

    ORIGIN = (0, 0)
    FAR = (9, 9)


class Mixed(enum.Enum):
    ONE = 1
    TWO = "two"


@dataclass
class Point:
    x: int
    y: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    id: int
    lines: list[Line] = field(default_factory=list)
    placed: datetime | None = None
    total: Decimal = Decimal(0)
    tags: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Line:
    sku: str
    amount: Decimal
    weight: float | None = None


@dataclass
class Node:
    name: str
    children: list[Node] = field(default_factory=list)
    parent_name: str | None = None


@dataclass
class Point3(Point):
    z: int = 0


@dataclass
class Computed:
    base: int
    double: int = field(init=False)

    def __post_init__(self) -> None:
        self.double = self.base * 2


@dataclass
class Positive:
    value: int

    def __post_init__(self) -> None:
        if self.value <= 0:
            raise ValueError("must be positive")


@dataclass
class WithInitVar:
    seed: dataclasses.InitVar[int]
    value: int = 0


@dataclass
class Box(Generic[T]):
    content: T
    more: list[T] = field(default_factory=list)


class Coordinates(msgspec.Struct):
    lat: float
    lon: float = 0.0
    label: str | msgspec.UnsetType = msgspec.UNSET


class Renamed(msgspec.Struct, rename="camel", tag=True, frozen=True):
    first_name: str
    inner: Coordinates | None = None


class Pair(NamedTuple):
    left: int
    right: datetime | None = None


Loose = namedtuple("Loose", ["a", "b"])


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class Partly(TypedDict, total=False):
    id: Required[int]
    note: str


class Address(pydantic.BaseModel):
    street: str
    zip_code: str = pydantic.Field(alias="zipCode")


class User(pydantic.BaseModel):
    id: int
    joined: datetime
    addresses: list[Address] = []
    rank: Colour | None = None
    raw: bytes = b""


class Aliased(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")

    one: int = pydantic.Field(alias="uno")
    three: list[Address] = []


class ReadOnlyAlias(pydantic.BaseModel):
    """Aliases that differ by direction: pydantic before 2.11 cannot be asked to leave them out."""

    one: int = pydantic.Field(validation_alias="eins")
    two: int = pydantic.Field(default=0, serialization_alias="zwei", validation_alias="dos")


class Employee(User):
    salary: Decimal = Decimal(0)


class Secret(pydantic.BaseModel):
    token: pydantic.SecretStr


class Hidden(pydantic.BaseModel):
    shown: int
    kept_back: int = pydantic.Field(default=0, exclude=True)


class Numbers(pydantic.RootModel[list[int]]):
    pass


@pydantic.dataclasses.dataclass
class Checked:
    amount: int
    when: datetime | None = None
