"""The lender's arithmetic: pure functions of an intake, in whole euros, per cent and basis points."""

from collections.abc import Sequence

from keepstep.examples.application import Intake

# What the payment is reckoned at before a rate is set: 5 %.
STRESS_RATE = 500


def average(months: Sequence[int]) -> int:
    """Return the mean, rounded down; 0 for no months at all."""
    return sum(months) // len(months) if months else 0


def monthly_payment(loan: int, years: int, rate: int) -> int:
    """Return the euros a month that repay `loan` in `years` at `rate` basis points a year (an annuity)."""
    months = years * 12
    monthly = rate / 10_000 / 12
    if monthly == 0:
        return round(loan / months)
    return round(loan * monthly / (1 - (1 + monthly) ** -months))


def affordability(state: Intake) -> int:
    """Return what is left over each month, as per cent of the income; negative if nothing is."""
    debt = state.credit.monthly_debt if state.credit else 0
    left = state.monthly_income - state.monthly_spending - state.monthly_payment - debt
    return round(100 * left / state.monthly_income) if state.monthly_income else -100


def loan_to_value(state: Intake) -> int:
    """Return the loan as per cent of what the property is worth."""
    return round(100 * state.loan / state.property_fields.valuation) if state.property_fields.valuation else 100


def disagreements(state: Intake) -> list[str]:
    """Return the sections of the file that name another applicant than the passport does."""
    sections = {
        "income": state.income_fields.applicant,
        "spending": state.spending_fields.applicant,
        "property": state.property_fields.applicant,
    }
    return [name for name, applicant in sections.items() if applicant != state.identity_fields.applicant]


def red_flags(state: Intake) -> list[str]:
    """Return, in words, all that an underwriter should look at twice."""
    checks = {
        "identity not verified": state.identity is None or not state.identity.verified,
        "sanctions list hit": state.sanctions is None or state.sanctions.hits > 0,
        "weak credit rating": state.credit is None or state.credit.rating < 600,
        "little money left over": state.affordability < 10,
        "loan above 85 % of the value": state.loan_to_value > 85,
    }
    return [flag for flag, raised in checks.items() if raised]


def score(state: Intake) -> int:
    """Return 0 (refuse) to 100 (a safe loan)."""
    rating = state.credit.rating if state.credit else 0
    points = rating / 10 + state.affordability / 2 + (100 - state.loan_to_value) / 4 - 15 * len(state.flags)
    return max(0, min(100, round(points)))


def rate(state: Intake) -> int:
    """Return the rate to offer, in basis points: 3.2 % for the safest, 0.02 % more for each point of score missing."""
    return 320 + 2 * (100 - (state.score or 0))


def title_problems(state: Intake) -> list[str]:
    """Return, in words, what the land registry's extract has against the purchase."""
    extract = state.registry_extract
    if extract is None:
        return ["no registry extract"]
    problems = [] if extract.owner_confirmed else ["the seller is not the registered owner"]
    if extract.charges:
        problems.append(f"{extract.charges} older charge(s) on the title")
    return problems


def summary(state: Intake) -> str:
    """Return the page that the underwriter reads."""
    flags = "; ".join(state.flags) or "none"
    return (
        f"{state.application}: {state.loan} EUR over {state.years} years at {(state.rate or 0) / 100:.2f} %. "
        f"Score {state.score}, loan to value {state.loan_to_value} %, left over {state.affordability} % of income. "
        f"Flags: {flags}. {len(state.documents)} documents."
    )
