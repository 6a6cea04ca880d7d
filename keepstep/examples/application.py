"""The state of an intake: what is known about one mortgage application so far. References, never file contents."""

from pydantic import BaseModel

from keepstep import Approval

# What every application has to bring.
DOCUMENTS = (
    "passport",
    "proof_of_address",
    "payslip_1",
    "payslip_2",
    "payslip_3",
    "bank_statement_1",
    "bank_statement_2",
    "bank_statement_3",
    "tax_return",
    "employment_contract",
    "purchase_agreement",
    "valuation_report",
)


class Document(BaseModel):
    """A copy of one document: where it is kept and what it looked like. The pages stay in the vault."""

    name: str
    ref: str
    pages: int
    sha256: str


class IdentityFields(BaseModel):
    """What the passport and the proof of address say."""

    applicant: str = ""
    passport: str = ""
    address: str = ""


class IncomeFields(BaseModel):
    """What the payslips, the contract and the tax return say; euros a month."""

    applicant: str = ""
    monthly_net: list[int] = []


class SpendingFields(BaseModel):
    """What the bank statements say; euros a month."""

    applicant: str = ""
    monthly: list[int] = []


class PropertyFields(BaseModel):
    """What the purchase agreement and the valuation say; euros."""

    applicant: str = ""
    title: str = ""
    valuation: int = 0


class Identity(BaseModel):
    """The identity service's answer."""

    reference: str
    verified: bool


class Credit(BaseModel):
    """The credit bureau's answer; `monthly_debt` in euros."""

    reference: str
    rating: int
    monthly_debt: int


class Sanctions(BaseModel):
    """The sanctions screening's answer."""

    reference: str
    hits: int


class RegistryExtract(BaseModel):
    """The land registry's answer: `charges` counts the older mortgages on the property."""

    reference: str
    owner_confirmed: bool
    charges: int


class Intake(BaseModel):
    """One application, from the form to the decision. Only `application` has to be given."""

    application: str
    loan: int = 240_000
    years: int = 25

    registration: str | None = None
    vault_session: str | None = None
    documents: list[Document] = []
    kinds: dict[str, str] = {}

    identity_fields: IdentityFields = IdentityFields()
    income_fields: IncomeFields = IncomeFields()
    spending_fields: SpendingFields = SpendingFields()
    property_fields: PropertyFields = PropertyFields()

    identity: Identity | None = None
    credit: Credit | None = None
    sanctions: Sanctions | None = None
    registry_order: str | None = None
    registry_extract: RegistryExtract | None = None

    monthly_income: int = 0
    monthly_spending: int = 0
    monthly_payment: int = 0
    affordability: int = 0
    loan_to_value: int = 0
    flags: list[str] = []
    score: int | None = None
    rate: int | None = None
    summary: str = ""

    asked: int = 0
    approval: Approval | None = None
    decision: str | None = None
    offer: str | None = None
    record: str | None = None
    notifications: list[str] = []
    vault_closed: bool = False
