# SPDX-License-Identifier: Apache-2.0
"""Fixtures of tests of faults."""

from __future__ import annotations

import pytest
from robot_identification.nodes.common.receive_buffers import profile_variables

PROFILE = """<?xml version="1.0" encoding="UTF-8"?>
<dds xmlns="http://www.eprosima.com">
  <profiles>
    <transport_descriptors>
      <transport_descriptor>
        <transport_id>loopback</transport_id>
        <type>UDPv4</type>
        <interfaceWhiteList><address>127.0.0.1</address></interfaceWhiteList>
        <maxInitialPeersRange>32</maxInitialPeersRange>
      </transport_descriptor>
    </transport_descriptors>
    <participant profile_name="loopback" is_default_profile="true">
      <rtps>
        <useBuiltinTransports>false</useBuiltinTransports>
        <userTransports><transport_id>loopback</transport_id></userTransports>
        <builtin>
          <discovery_config>
            <leaseDuration><sec>2</sec></leaseDuration>
            <leaseAnnouncement><sec>0</sec><nanosec>500000000</nanosec></leaseAnnouncement>
          </discovery_config>
          <metatrafficUnicastLocatorList><locator/></metatrafficUnicastLocatorList>
          <initialPeersList>
            <locator><udpv4><address>127.0.0.1</address></udpv4></locator>
          </initialPeersList>
        </builtin>
      </rtps>
    </participant>
  </profiles>
</dds>
"""
"""For FastDDS: nodes that are gone are missed after 2 s, not 20 s, and all is UDP on loopback."""


@pytest.fixture(scope='module')
def cell(module_ros):
    """Give a client (`Ros`) whose nodes run for all tests of a module."""
    return module_ros


@pytest.fixture(scope='module')
def attentive(tmp_path_factory):
    """Give the environment of nodes that soon miss others, and that talk by UDP alone."""
    path = tmp_path_factory.mktemp('profile') / 'profile.xml'
    path.write_text(PROFILE)
    return {
        **dict.fromkeys(profile_variables(), str(path)),
        # what the profile says of transports is replaced otherwise
        'ROS_AUTOMATIC_DISCOVERY_RANGE': 'SYSTEM_DEFAULT',
    }
