"""What may be typed as an address, a port, a user, a container number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosts.addresses import InvalidAddress, check_address, check_port, check_resolved, check_user, check_vmid


@pytest.mark.parametrize(
    ("typed", "canonical"),
    [
        ("gpu1", "gpu1"),
        ("GPU1.Example.org.", "gpu1.example.org"),
        ("10.0.0.5", "10.0.0.5"),
        ("[2001:DB8::1]", "2001:db8::1"),
        ("gpu_1", "gpu_1"),
    ],
)
def test_addresses_are_brought_into_one_form(typed: str, canonical: str) -> None:
    assert check_address(typed) == canonical


@pytest.mark.parametrize(
    "typed",
    [
        "-oProxyCommand=touch /tmp/x", "host; id", "$(id)", "`id`", "a b", "a\n", "a\0", "", " ", "root@host",
        "host:22", "ssh://host", "a..b", ".", "-", "a" * 254, "gpu１", None, 5, ["a"],
        "127.0.0.1", "::1", "0.0.0.0", "localhost", "LOCALHOST", "x.localhost", "127.8.8.8", "[::ffff:127.0.0.1]",
        "169.254.169.254", "2852039166", "0xA9FEA9FE", "0251.0376.0251.0376", "[::ffff:169.254.169.254]",
        "fe80::1", "fe80::1%eth0", "224.0.0.1", "255.255.255.255", "127.1", "0x7f.1",
    ],
)  # fmt: skip
def test_bad_addresses_are_refused(typed: object) -> None:
    with pytest.raises(InvalidAddress) as caught:
        check_address(typed)
    assert str(caught.value)


def test_this_machine_is_allowed_where_that_is_meant() -> None:
    assert check_address("127.0.0.1", allow_local=True) == "127.0.0.1"
    assert check_address("localhost", allow_local=True) == "localhost"


def test_link_local_is_never_allowed() -> None:
    with pytest.raises(InvalidAddress):
        check_resolved("169.254.169.254", allow_local=True)


@pytest.mark.parametrize("value", [22, "22", 1, 65535])
def test_ports(value: object) -> None:
    assert check_port(value) == int(str(value))


@pytest.mark.parametrize("value", [0, 65536, -1, "22 ", "22;id", "٢٢", 22.0, True, "", None, "022", "+22"])
def test_bad_ports_are_refused(value: object) -> None:
    with pytest.raises(InvalidAddress):
        check_port(value)


@pytest.mark.parametrize("value", ["root", "_www", "llm-admin", "a" * 32])
def test_users(value: str) -> None:
    assert check_user(value) == value


@pytest.mark.parametrize("value", ["root -o..", "a b", "../", "", "x" * 300, "Root", "-x", "röot", "root\n", None])
def test_bad_users_are_refused(value: object) -> None:
    with pytest.raises(InvalidAddress):
        check_user(value)


@pytest.mark.parametrize("value", [100, "129", 999999999])
def test_container_numbers(value: object) -> None:
    assert check_vmid(value) == int(str(value))


@pytest.mark.parametrize("value", ["101 -- sh", "101;id", "-1", "0101", "99", 99, "1e3", 1e3, 10**9, "1000000000"])
def test_bad_container_numbers_are_refused(value: object) -> None:
    with pytest.raises(InvalidAddress):
        check_vmid(value)


@given(st.text())
def test_whatever_is_typed_is_accepted_in_full_or_refused(typed: str) -> None:
    try:
        accepted = check_address(typed)
    except InvalidAddress:
        return
    assert check_address(accepted) == accepted
    assert not accepted.startswith("-")
    assert not set(accepted) & set(" ;$`\n\0/@\\'\"")
