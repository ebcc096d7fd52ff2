"""The text of a contract names it, whatever else a later release writes beside it."""

import json

import pytest

from jqmaster.domain.workers.contract import Contract, schema_of_text

pytestmark = pytest.mark.req("J18")


def test_a_contract_is_read_as_it_was_written() -> None:
    contract = Contract("1.2", {"type": "integer"}, {"priority": 3})
    assert Contract.of_text(contract.text()) == contract
    later = json.loads(contract.text()) | {"of_next_year": 1}
    assert Contract.of_text(json.dumps(later)) == contract
    assert schema_of_text(contract.schema_text()) == {"type": "integer"}
    assert contract.digest == Contract("1.2", {"type": "integer"}, {"priority": 3}).digest
