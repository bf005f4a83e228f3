"""Pages of operators, and visits to them."""

from meetcore.adapters.web.page import AreaPage
from meetcore.adapters.web.visit import AreaVisit
from meetcore.domain.members.roles import OperatorAction
from meetcore.ports.member_queries import SignedInOperator
from meetcore.usecases.console import ConsoleUseCases

ConsoleVisit = AreaVisit[SignedInOperator, ConsoleUseCases, OperatorAction]
"""A visit of an operator."""

ConsolePage = AreaPage[SignedInOperator, ConsoleUseCases, OperatorAction]
"""A page for operators."""
